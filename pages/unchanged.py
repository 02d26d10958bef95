"""Whether a page is as it was, from the versions of its rows: one statement instead of a drawing.

A page that updates itself is requested every few seconds, and mostly nothing has changed. Such a page names
the rows that it is made from. PostgreSQL reduces them to one text: how many there are, and which transactions
wrote them. Every insert and every update brings a transaction that wrote none of these rows before, and every
deletion alone changes the count, so equal texts mean equal rows. No writer has to take part, so none can
forget to. Rows that are also written without news count by the columns that are shown.

The tag of a page is kept in this process, for one user with these rights, one address and one set of cookies.
Rows and page are read in one transaction that sees one moment, so the tag belongs to these rows. It dies

- with any change of the rows;
- when PostgreSQL starts again: a database put back to a backup counts anew from a transaction that is past;
- after MOST_SECONDS, long before the numbers of transactions come round to the same again;
- when MOST_TAGS others were used since.

What a page shows beside rows has to be in its address or in the parameters of its statement: a row that
counts until some time is one of them. Rejected: triggers that count the changes of a table, which would make
one row the meeting place of all writers.
"""

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from django.db import connection

MOST_TAGS = 1000
MOST_SECONDS = 600


@dataclass(frozen=True, slots=True)
class RowSource:
    """The rows of a table that a page is made from, in SQL; ``where`` takes named parameters.

    ``columns`` None: a row counts by its version.
    """

    table: str
    where: str
    columns: tuple[str, ...] | None = None

    @property
    def statement(self) -> str:
        row = f"ROW({', '.join(self.columns)})" if self.columns else "xmin"
        digest = f"count(*) || ':' || coalesce(sum(hashtextextended({row}::text, 0)), 0)"
        return f"(SELECT {digest} FROM {self.table} WHERE {self.where})"  # noqa: S608 -- from constants


def row_versions(sources: Sequence[RowSource], parameters: Mapping[str, Any]) -> str:
    """What the rows are now, as a text that differs for different rows. One query."""
    parts = ", ".join(source.statement for source in sources)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT concat_ws(' ', pg_postmaster_start_time(), {parts})", parameters)
        return str(cursor.fetchone()[0])


@dataclass(frozen=True, slots=True)
class _Tag:
    etag: str
    versions: str
    kept_at: float


class PageTags:
    """The tags of the pages that were requested last, by reader and address; safe for threads."""

    def __init__(self) -> None:
        self._tags: OrderedDict[str, _Tag] = OrderedDict()
        self._lock = Lock()

    def find(self, page: str, *, versions: str) -> str | None:
        """The tag of a page that was made from these versions."""
        with self._lock:
            tag = self._tags.get(page)
            if tag is None or tag.versions != versions or time.monotonic() - tag.kept_at > MOST_SECONDS:
                return None
            self._tags.move_to_end(page)
            return tag.etag

    def keep(self, page: str, etag: str, *, versions: str) -> None:
        with self._lock:
            self._tags[page] = _Tag(etag, versions, time.monotonic())
            self._tags.move_to_end(page)
            while len(self._tags) > MOST_TAGS:
                self._tags.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._tags.clear()


tags = PageTags()
