"""Changes of one cluster on their way to the database: collected for a moment, bounded.

Of each object the newest change waits. The usage of other tenants' pods has a lane of its own, which is
bounded by the number of nodes and never blocks a stream. It is written once a second and in parts, so it does
not delay our own changes.
"""

import threading
import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from workflows.values.observation import (
    EventSeen,
    ForeignUsageSeen,
    NodeSeen,
    ObjectSeen,
    PodSeen,
    ResourceSeen,
    UnreadableObject,
)

Observation = PodSeen | ObjectSeen | NodeSeen | ResourceSeen | EventSeen | UnreadableObject

MOST = 5000
LINGER_SECONDS = 0.25
"""How long changes are collected at most while more of them come."""
QUIET_SECONDS = 0.05
"""After so long without another change what has come is written."""
BATCH = 500
HEARTBEAT_SECONDS = 1.0
"""How often a batch says that the cluster answers, at most; batches come several times as often."""
FOREIGN_USAGE_SECONDS = 1.0
"""How long the usage of other tenants' pods is collected before it is written."""


@dataclass(slots=True)
class Batch:
    """Changes to write, in the order of their arrival, and what is known once they are written.

    ``listed`` are the keys of those that a complete list had: it is the cluster's present state whatever
    the rows say, also after its store was put back.
    """

    changes: list[Observation] = field(default_factory=list)
    listed: set[Hashable] = field(default_factory=set)
    problems: dict[str, str | None] = field(default_factory=dict)
    """By kind: why not all of them are known; empty if all are."""
    is_reachable: bool = False
    foreign_usage: "ForeignUsageChanges | None" = None

    def add(self, change: Observation) -> None:
        self.changes.append(change)

    @property
    def pods(self) -> list[PodSeen]:
        return [change for change in self.changes if isinstance(change, PodSeen)]

    @property
    def objects(self) -> list[ObjectSeen]:
        return [change for change in self.changes if isinstance(change, ObjectSeen)]

    @property
    def nodes(self) -> list[NodeSeen]:
        return [change for change in self.changes if isinstance(change, NodeSeen)]

    @property
    def resources(self) -> list[ResourceSeen]:
        return [change for change in self.changes if isinstance(change, ResourceSeen)]

    @property
    def events(self) -> list[EventSeen]:
        return [change for change in self.changes if isinstance(change, EventSeen)]

    @property
    def unreadable(self) -> list[UnreadableObject]:
        return [change for change in self.changes if isinstance(change, UnreadableObject)]

    def only(self, changes: Sequence[Observation]) -> "Batch":
        """Some of the changes, without what is known after them."""
        return Batch(changes=list(changes), listed=self.listed)

    def without_changes(self) -> "Batch":
        """The state after the changes."""
        return Batch(problems=self.problems, is_reachable=self.is_reachable)


@dataclass(slots=True)
class ForeignUsageChanges:
    """Other tenants' pods in one cluster: sums by node, and the state of their watch."""

    usage: dict[str, ForeignUsageSeen] = field(default_factory=dict)
    problem: str | None = None
    """Why not all are known; empty if all are, None: nothing new."""


def key_of(change: Observation) -> Hashable:
    match change:
        case PodSeen():
            return ("Pod", change.namespace, change.name)
        case ObjectSeen() | UnreadableObject():
            return (change.kind, change.namespace, change.name)
        case NodeSeen():
            return ("Node", "", change.name)
        case ResourceSeen():
            return (change.resource, "", change.name)
    return ("Event", "", change.dedupe)


class Inbox:
    """Many streams of one cluster put, one writer takes."""

    def __init__(self, *, most: int = MOST) -> None:
        self._most = most
        self._news = threading.Condition()
        self._changes: dict[Hashable, Observation] = {}
        self._waits_since = float("-inf")  # of the first of the changes
        self._listed: set[Hashable] = set()
        self._is_reachable = False
        self._reachable_at = float("-inf")
        self._problems: dict[str, str | None] = {}
        self._foreign_usage = ForeignUsageChanges()
        self._foreign_usage_waits = False
        self._foreign_usage_taken_at = float("-inf")
        self._closed = False
        self._ended = threading.Event()

    def put(self, change: Observation, *, listed: bool) -> None:
        """Add a change, waiting while there is no room. After ``close`` changes are dropped.

        ``listed``: a complete list had the object, or lacked it.
        """
        key = key_of(change)
        with self._news:
            while len(self._changes) >= self._most and key not in self._changes and not self._closed:
                self._news.wait()
            if not self._closed:
                if not self._changes:
                    self._waits_since = time.monotonic()
                self._changes[key] = change
                (self._listed.add if listed else self._listed.discard)(key)
                self._news.notify_all()

    def note_reachable(self) -> None:
        """Note that the cluster answers."""
        with self._news:
            self._is_reachable = True

    def complete(self, kind: str) -> None:
        """Note that all objects of a kind have been put, so that an absent one is known to be absent."""
        self.incomplete(kind, "")

    def incomplete(self, kind: str, problem: str | None) -> None:
        """Note why not all of them are known; None: nobody follows them any more."""
        with self._news:
            self._problems[kind] = problem
            self._news.notify_all()

    def put_foreign_usage(self, change: ForeignUsageSeen) -> None:
        """Add what other tenants' pods use of a node; never waits."""
        with self._lane() as lane:
            lane.usage[change.node] = change

    def note_foreign_usage(self, problem: str) -> None:
        """Note why not all other tenants' pods in the cluster are in the sums; empty if all are."""
        with self._lane() as lane:
            lane.problem = problem

    def put_back(self, changes: ForeignUsageChanges) -> None:
        """Keep what could not be written; changes that arrived meanwhile are newer."""
        with self._lane() as lane:
            lane.usage = changes.usage | lane.usage
            lane.problem = changes.problem if lane.problem is None else lane.problem

    def close(self) -> None:
        self._ended.set()
        with self._news:
            self._closed = True
            self._news.notify_all()

    def size(self) -> int:
        """How many changes wait."""
        with self._news:
            return len(self._changes) + len(self._foreign_usage.usage)

    def take(self, *, timeout: float, linger: float = LINGER_SECONDS, quiet: float = QUIET_SECONDS) -> Batch:
        """The changes so far: waits for the first change, then as long as more of them follow closely.

        Each batch makes its groups due, so of a thousand pods that end together few batches are made.
        """
        until = time.monotonic() + timeout
        with self._news:
            while not (self._changes or self._foreign_usage_due() or self._closed):
                if (left := until - time.monotonic()) <= 0:
                    break
                self._news.wait(left)
        self._gather(linger=linger, quiet=quiet)
        with self._news:
            return self._drain()

    def _gather(self, *, linger: float, quiet: float) -> None:
        """Wait until nothing has come for ``quiet``, or the first has waited for ``linger``.

        It may have waited already while the batch before was written. No change wakes the writer.
        """
        size = 0
        while (left := self._waits_since + linger - time.monotonic()) > 0:
            with self._news:
                before, size = size, len(self._changes)
            if size == before or size >= BATCH or self._ended.wait(min(quiet, left)):
                return

    def _drain(self) -> Batch:
        keys = list(self._changes)[: 4 * BATCH]
        batch = Batch(
            changes=[self._changes.pop(key) for key in keys],
            listed=self._listed.intersection(keys),
        )
        self._listed.difference_update(keys)
        if self._is_reachable and time.monotonic() - self._reachable_at >= HEARTBEAT_SECONDS:
            self._reachable_at = time.monotonic()
            batch.is_reachable, self._is_reachable = True, False
        if not self._changes:  # all were put before the note, so they are in this batch or an earlier one
            batch.problems, self._problems = self._problems, {}
        if self._foreign_usage_due():
            self._foreign_usage_taken_at = time.monotonic()
            batch.foreign_usage = self._part()
        self._news.notify_all()
        return batch

    @contextmanager
    def _lane(self) -> Iterator[ForeignUsageChanges]:
        with self._news:
            self._foreign_usage_waits = True
            yield self._foreign_usage
            self._news.notify_all()

    def _foreign_usage_due(self) -> bool:
        return (
            self._foreign_usage_waits
            and time.monotonic() - self._foreign_usage_taken_at >= FOREIGN_USAGE_SECONDS
        )

    def _part(self) -> ForeignUsageChanges:
        """Some of the lane; the state of the watch comes with the last of it."""
        lane = self._foreign_usage
        if len(lane.usage) <= BATCH:
            self._foreign_usage, self._foreign_usage_waits = ForeignUsageChanges(), False
            return lane
        return ForeignUsageChanges({node: lane.usage.pop(node) for node in list(lane.usage)[:BATCH]})
