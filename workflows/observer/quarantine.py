"""Objects that cannot be written, kept aside one by one so that nothing else waits for them.

A batch that the database refuses for its contents is halved until the objects that cause it stand alone. Each
is kept aside and not tried again until its resource version changes; a condition of its backends names it.
A lost connection, a full disk, a table that is missing: none of it is an object's fault, so the batch as a
whole is tried again.

Rejected: leaving out the whole batch, which would lose what stands beside the object; and trying it for ever,
which would hold up everything behind it.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import DataError, Error, IntegrityError

from cluster.storable import storable_text
from web.times import naive_utc
from workflows.observer.inbox import Batch, Observation, key_of
from workflows.observer.lease import ObserverLeaseLost
from workflows.values.observation import MAX_TEXT

MOST = 10_000
"""Objects that are remembered; the oldest are tried again beyond that."""

NAMED = 5
"""Objects that the row names; the others are counted."""

_CONTENTS = ("21", "22", "23", "54")
"""Classes of SQLSTATE that the values of a statement cause: cardinality, data, integrity, program limits."""


def lies_in_contents(error: Exception) -> bool:
    """Whether what was written caused the error, rather than the state of the database."""
    if isinstance(error, ObserverLeaseLost):
        return False
    if not isinstance(error, Error):
        return True
    state = str(getattr(error.__cause__, "sqlstate", None) or "")
    return isinstance(error, DataError | IntegrityError) or state.startswith(_CONTENTS)


def write_apart(batch: Batch, write: Callable[[Batch], None]) -> list[tuple[Observation, Exception]]:
    """Write the changes of a batch; returns those that cannot be written, each with its error.

    Raises what no object caused; then some parts may have been written, which is harmless to do again.
    """
    try:
        write(batch)
    except Exception as error:
        if not batch.changes or not lies_in_contents(error):
            raise
        if len(batch.changes) == 1:
            return [(batch.changes[0], error)]
        middle = len(batch.changes) // 2
        halves = (batch.changes[:middle], batch.changes[middle:])
        refused = [pair for half in halves for pair in write_apart(batch.only(half), write)]
        write(batch.without_changes())
        return refused
    return []


@dataclass(frozen=True, slots=True)
class Quarantined:
    """An object that cannot be written at this version; ``error`` for people."""

    resource_version: str
    error: str
    since: datetime


class Quarantine:
    """The objects of one cluster that cannot be written."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, Quarantined] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def admitted(self, changes: list[Observation]) -> Iterator[Observation]:
        """The changes to try: all but those of kept objects whose version is the same."""
        for change in changes:
            entry = self._entries.get(key_of(change))
            if entry is None or change.resource_version != entry.resource_version or _is_absent(change):
                yield change

    def add(self, change: Observation, error: str) -> None:
        """Keep an object aside."""
        key = key_of(change)
        before = self._entries.pop(key, None)
        since = before.since if before else datetime.now(UTC)
        self._entries[key] = Quarantined(change.resource_version, storable_text(error[:MAX_TEXT]), since)
        while len(self._entries) > MOST:
            self._entries.popitem(last=False)

    def drop(self, change: Observation) -> None:
        """Forget an object that was written, or is gone."""
        self._entries.pop(key_of(change), None)

    def summary(self) -> dict[str, Any]:
        """The count, and the objects that were kept first; empty for none."""
        if not self._entries:
            return {}
        first = [
            {
                "object": " ".join(str(part) for part in key if part) if isinstance(key, tuple) else str(key),
                "error": entry.error,
                "since": naive_utc(entry.since, precision="seconds"),
            }
            for key, entry in list(self._entries.items())[:NAMED]
        ]
        return {"count": len(self._entries), "objects": first}


def _is_absent(change: Observation) -> bool:
    return bool(getattr(change, "absent", False))
