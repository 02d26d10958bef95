"""Whether a page is as it was, from the versions of its rows: one statement instead of a drawing.

A page that updates itself is requested every few seconds, and mostly nothing has changed. Such a page names
the rows that it is made from. PostgreSQL reduces them to one text: how many there are, and which transactions
wrote them. Every insert and every update brings a transaction that wrote none of these rows before, and every
deletion alone changes the count, so equal texts mean equal rows. No writer has to take part, so none can
forget to. Rows that are also written without news count by the columns that are shown.

The tag of a page is kept in this process, for one user with these rights, one address and one set of cookies.
Rows and page are read in one transaction that sees one moment, so the tag belongs to these rows.

Who the caller is follows from rows, too: the session, its user, and the roles. Their versions are read before
the caller is logged in, and kept once it shows that they are this user's; from then on the one statement says
that the caller is who they were and that the page is as it was (``pages.unmade``). A tag dies

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from django.db import connection
from django.utils import timezone

from web.policy import Grants

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


@dataclass(frozen=True, slots=True)
class PageRows:
    """All that a page is made from: rows, the parameters that choose them, and what is ``beside`` rows."""

    sources: Sequence[RowSource]
    parameters: Mapping[str, Any]
    beside: str = ""


@dataclass(frozen=True, slots=True)
class Versions:
    """What rows are now, as texts that differ for different rows: those of a page, and of its reader."""

    page: str
    reader: str = ""


_READER = (
    RowSource("django_session", "session_key = %(session)s AND expire_date > %(now)s"),
    RowSource("auth_user", "id = %(user)s"),
    RowSource("web_roleassignment", "user_id = %(user)s"),
    RowSource("web_role", "true"),
)
"""Who has a session, and what they may do."""


def page_versions(rows: PageRows) -> Versions:
    """What the rows of a page are now. One query."""
    (page,) = _read([_text(rows.sources)], rows.parameters)
    return Versions(f"{rows.beside} {page}")


def versions_for(rows: PageRows, *, session: str, user: int) -> Versions:
    """The same, with the rows by which this session is this user's. One query."""
    reader = {"session": session, "user": user, "now": timezone.now()}
    page, of_reader = _read([_text(rows.sources), _text(_READER)], {**rows.parameters, **reader})
    return Versions(f"{rows.beside} {page}", of_reader)


def _text(sources: Sequence[RowSource]) -> str:
    parts = ", ".join(source.statement for source in sources)
    return f"concat_ws(' ', pg_postmaster_start_time(), {parts})"


def _read(texts: Sequence[str], parameters: Mapping[str, Any]) -> tuple[str, ...]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(texts)}", parameters)
        return tuple(map(str, cursor.fetchone()))


@dataclass(frozen=True, slots=True)
class PageReader:
    """Who read a page, as far as it shows."""

    user: int
    is_staff: bool
    grants: Grants


@dataclass(frozen=True, slots=True)
class PageTag:
    """The tag of a page, whose ``rows`` say what it is made from at the moment.

    ``versions.reader`` is empty until it is known.
    """

    etag: str
    reader: PageReader
    rows: Callable[[], PageRows]
    versions: Versions
    kept_at: float


class PageTags:
    """The tags of the pages that were requested last, by address and credentials; safe for threads."""

    def __init__(self) -> None:
        self._tags: OrderedDict[str, PageTag] = OrderedDict()
        self._lock = Lock()

    def find(self, page: str) -> PageTag | None:
        with self._lock:
            tag = self._tags.get(page)
            if tag is None or time.monotonic() - tag.kept_at > MOST_SECONDS:
                return None
            self._tags.move_to_end(page)
            return tag

    def keep(self, page: str, tag: PageTag) -> None:
        with self._lock:
            self._tags[page] = tag
            self._tags.move_to_end(page)
            while len(self._tags) > MOST_TAGS:
                self._tags.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._tags.clear()


tags = PageTags()
