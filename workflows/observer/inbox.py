"""Changes on their way to the database: collected for a moment, bounded, the newest of each object.

The usage of other tenants' pods has a lane of its own, which is bounded by the number of nodes and never
blocks a stream. It is written once a second and in parts, so it does not delay our own changes.
"""

import threading
import time
from collections.abc import Hashable
from dataclasses import dataclass, field

from workflows.values.observation import (
    EventSeen,
    ForeignUsageSeen,
    NodeSeen,
    ObjectSeen,
    PodSeen,
    TopologySeen,
)

Change = PodSeen | ObjectSeen | NodeSeen | TopologySeen | EventSeen

MOST = 5000
LINGER_SECONDS = 0.1
BATCH = 500
FOREIGN_USAGE_SECONDS = 1.0
"""How long the usage of other tenants' pods is collected before it is written."""


@dataclass(slots=True)
class Batch:
    """The changes of one cluster to write, in the order of their arrival."""

    pods: list[PodSeen] = field(default_factory=list)
    objects: list[ObjectSeen] = field(default_factory=list)
    nodes: list[NodeSeen] = field(default_factory=list)
    events: list[EventSeen] = field(default_factory=list)
    topologies: list[TopologySeen] = field(default_factory=list)
    nodes_complete: bool = False
    topologies_complete: set[str] = field(default_factory=set)
    is_reachable: bool = False
    foreign_usage: "ForeignUsageChanges | None" = None

    def add(self, change: Change) -> None:
        match change:
            case PodSeen():
                self.pods.append(change)
            case ObjectSeen():
                self.objects.append(change)
            case NodeSeen():
                self.nodes.append(change)
            case TopologySeen():
                self.topologies.append(change)
            case EventSeen():
                self.events.append(change)


@dataclass(slots=True)
class ForeignUsageChanges:
    """Other tenants' pods in one cluster: sums by node, and the state of their watch."""

    usage: dict[str, ForeignUsageSeen] = field(default_factory=dict)
    complete: bool = False
    problem: str = ""


def key_of(change: Change) -> Hashable:
    match change:
        case PodSeen():
            return ("Pod", change.namespace, change.name)
        case ObjectSeen():
            return (change.kind, change.namespace, change.name)
        case NodeSeen():
            return ("Node", change.name)
        case TopologySeen():
            return (change.resource, change.name)
    return ("Event", change.dedupe)


class Inbox:
    """Many streams put, one writer takes. Everything is per cluster, by its uid."""

    def __init__(self, *, most: int = MOST) -> None:
        self._most = most
        self._news = threading.Condition()
        self._changes: dict[tuple[str, Hashable], Change] = {}
        self._reachable: set[str] = set()
        self._nodes_complete: set[str] = set()
        self._topologies_complete: set[tuple[str, str]] = set()
        self._foreign_usage: dict[str, ForeignUsageChanges] = {}
        self._foreign_usage_taken_at = float("-inf")
        self._closed = False

    def put(self, cluster: str, change: Change) -> None:
        """Add a change, waiting while there is no room. After ``close`` changes are dropped."""
        key = (cluster, key_of(change))
        with self._news:
            while len(self._changes) >= self._most and key not in self._changes and not self._closed:
                self._news.wait()
            if not self._closed:
                self._changes[key] = change
                self._news.notify_all()

    def note_reachable(self, cluster: str) -> None:
        """Note that the cluster answers."""
        with self._news:
            self._reachable.add(cluster)

    def nodes_complete(self, cluster: str) -> None:
        """Note that all nodes of the cluster have been put."""
        with self._news:
            self._nodes_complete.add(cluster)
            self._news.notify_all()

    def topologies_complete(self, cluster: str, resource: str) -> None:
        """Note that all topology objects of a kind have been put."""
        with self._news:
            self._topologies_complete.add((cluster, resource))
            self._news.notify_all()

    def put_foreign_usage(self, cluster: str, change: ForeignUsageSeen) -> None:
        """Add what other tenants' pods use of a node; never waits."""
        with self._news:
            self._foreign_usage.setdefault(cluster, ForeignUsageChanges()).usage[change.node] = change
            self._news.notify_all()

    def foreign_usage_complete(self, cluster: str) -> None:
        """Note that all other tenants' pods in the cluster are in the sums."""
        with self._news:
            lane = self._foreign_usage.setdefault(cluster, ForeignUsageChanges())
            lane.complete, lane.problem = True, ""

    def foreign_usage_refused(self, cluster: str, problem: str) -> None:
        """Note that the cluster does not let other tenants' pods be followed."""
        with self._news:
            lane = self._foreign_usage.setdefault(cluster, ForeignUsageChanges())
            lane.complete, lane.problem = False, problem

    def put_back(self, cluster: str, changes: ForeignUsageChanges) -> None:
        """Keep what could not be written; what arrived meanwhile is newer."""
        with self._news:
            lane = self._foreign_usage.setdefault(cluster, ForeignUsageChanges())
            lane.usage = changes.usage | lane.usage
            if not (lane.complete or lane.problem):
                lane.complete, lane.problem = changes.complete, changes.problem

    def close(self) -> None:
        with self._news:
            self._closed = True
            self._news.notify_all()

    def size(self) -> int:
        """How many changes wait."""
        with self._news:
            return len(self._changes) + sum(len(lane.usage) for lane in self._foreign_usage.values())

    def take(self, *, timeout: float, linger: float = LINGER_SECONDS) -> dict[str, Batch]:
        """What has come, by cluster: waits for the first change, then a moment for more of them."""
        until = time.monotonic() + timeout
        with self._news:
            while not (self._changes or self._foreign_usage_due() or self._closed):
                if (left := until - time.monotonic()) <= 0:
                    break
                self._news.wait(left)
            lingering = time.monotonic() + linger
            while len(self._changes) < BATCH and not self._closed:
                if (left := lingering - time.monotonic()) <= 0:
                    break
                self._news.wait(left)
            return self._drain()

    def _drain(self) -> dict[str, Batch]:
        batches: dict[str, Batch] = {}
        for cluster, _ in (keys := list(self._changes)[: 4 * BATCH]):
            batches.setdefault(cluster, Batch())
        for key in keys:
            batches[key[0]].add(self._changes.pop(key))
        for cluster in self._reachable:
            batches.setdefault(cluster, Batch()).is_reachable = True
        self._reachable.clear()
        if not self._changes:  # all were put before the note, so they are in this batch or an earlier one
            for cluster in self._nodes_complete:
                batches.setdefault(cluster, Batch()).nodes_complete = True
            self._nodes_complete.clear()
            for cluster, resource in self._topologies_complete:
                batches.setdefault(cluster, Batch()).topologies_complete.add(resource)
            self._topologies_complete.clear()
        if self._foreign_usage_due():
            self._foreign_usage_taken_at = time.monotonic()
            for cluster in list(self._foreign_usage):
                batches.setdefault(cluster, Batch()).foreign_usage = self._part(cluster)
        self._news.notify_all()
        return batches

    def _foreign_usage_due(self) -> bool:
        return (
            bool(self._foreign_usage)
            and time.monotonic() - self._foreign_usage_taken_at >= FOREIGN_USAGE_SECONDS
        )

    def _part(self, cluster: str) -> ForeignUsageChanges:
        """Some of a cluster's lane; how it stands is told with the last of it."""
        lane = self._foreign_usage[cluster]
        if len(lane.usage) <= BATCH:
            return self._foreign_usage.pop(cluster)
        return ForeignUsageChanges({node: lane.usage.pop(node) for node in list(lane.usage)[:BATCH]})
