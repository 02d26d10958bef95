"""Changes on their way to the database: gathered for a moment, bounded, the newest of an object winning.

What other tenants' pods hold has a lane of its own, which is bounded by the number of nodes and never makes
anybody wait: it leaves once in a while and a part at a time, so their coming and going holds up nothing of
ours.
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
OTHERS_SECONDS = 1.0
"""How long what other tenants' pods hold is gathered before it is written."""


@dataclass(slots=True)
class Batch:
    """What is to be written about one cluster, in the order it was first heard of."""

    pods: list[PodSeen] = field(default_factory=list)
    objects: list[ObjectSeen] = field(default_factory=list)
    nodes: list[NodeSeen] = field(default_factory=list)
    events: list[EventSeen] = field(default_factory=list)
    topologies: list[TopologySeen] = field(default_factory=list)
    nodes_complete: bool = False
    topologies_complete: set[str] = field(default_factory=set)
    heard: bool = False
    others: "Others | None" = None

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
class Others:
    """Other tenants' pods in one cluster: sums by node, and the state of their watch."""

    held: dict[str, ForeignUsageSeen] = field(default_factory=dict)
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
        self._heard: set[str] = set()
        self._nodes_complete: set[str] = set()
        self._topologies_complete: set[tuple[str, str]] = set()
        self._others: dict[str, Others] = {}
        self._others_left = float("-inf")
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

    def heard(self, cluster: str) -> None:
        """Note that the cluster answers."""
        with self._news:
            self._heard.add(cluster)

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

    def others(self, cluster: str, change: ForeignUsageSeen) -> None:
        """Add what other tenants' pods hold of a node; never waits."""
        with self._news:
            self._others.setdefault(cluster, Others()).held[change.node] = change
            self._news.notify_all()

    def others_complete(self, cluster: str) -> None:
        """Note that all other tenants' pods in the cluster are in the sums."""
        with self._news:
            lane = self._others.setdefault(cluster, Others())
            lane.complete, lane.problem = True, ""

    def others_refused(self, cluster: str, problem: str) -> None:
        """Note that the cluster does not let other tenants' pods be followed."""
        with self._news:
            lane = self._others.setdefault(cluster, Others())
            lane.complete, lane.problem = False, problem

    def put_back(self, cluster: str, others: Others) -> None:
        """Keep what could not be written; what was heard meanwhile is newer."""
        with self._news:
            lane = self._others.setdefault(cluster, Others())
            lane.held = others.held | lane.held
            if not (lane.complete or lane.problem):
                lane.complete, lane.problem = others.complete, others.problem

    def close(self) -> None:
        with self._news:
            self._closed = True
            self._news.notify_all()

    def size(self) -> int:
        """How many changes wait."""
        with self._news:
            return len(self._changes) + sum(len(lane.held) for lane in self._others.values())

    def take(self, *, timeout: float, linger: float = LINGER_SECONDS) -> dict[str, Batch]:
        """What has come, by cluster: waits for the first change, then a moment for more of them."""
        until = time.monotonic() + timeout
        with self._news:
            while not (self._changes or self._others_due() or self._closed):
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
        for cluster, _ in (taken := list(self._changes)[: 4 * BATCH]):
            batches.setdefault(cluster, Batch())
        for key in taken:
            batches[key[0]].add(self._changes.pop(key))
        for cluster in self._heard:
            batches.setdefault(cluster, Batch()).heard = True
        self._heard.clear()
        if not self._changes:  # all were put before the note, so they are in this batch or an earlier one
            for cluster in self._nodes_complete:
                batches.setdefault(cluster, Batch()).nodes_complete = True
            self._nodes_complete.clear()
            for cluster, resource in self._topologies_complete:
                batches.setdefault(cluster, Batch()).topologies_complete.add(resource)
            self._topologies_complete.clear()
        if self._others_due():
            self._others_left = time.monotonic()
            for cluster in list(self._others):
                batches.setdefault(cluster, Batch()).others = self._part(cluster)
        self._news.notify_all()
        return batches

    def _others_due(self) -> bool:
        return bool(self._others) and time.monotonic() - self._others_left >= OTHERS_SECONDS

    def _part(self, cluster: str) -> Others:
        """Some of a cluster's lane; how it stands is told with the last of it."""
        lane = self._others[cluster]
        if len(lane.held) <= BATCH:
            return self._others.pop(cluster)
        return Others({node: lane.held.pop(node) for node in list(lane.held)[:BATCH]})
