"""The health of a group's ComputeDomain: on which nodes of its pods NVIDIA's daemon is ready.

It is counted from the nodes of pods that hold a claim, never from the domain's own status, which is Ready
before any node has joined (ComputeDomain v1beta1: ``status.nodes`` with name, cliqueID and status). A domain
that lists no node says nothing of them: a driver that leaves IMEX to the host (``imex.mode: hostManaged``)
never lists any. Pure.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pools.conditions import Condition
from scheduling.sentences import agree, count_of, plain_listing

NVLINK_READY = "NVLinkReady"
READY = "Ready"
DOMAIN_LOST_NODE = "domain_lost_node"
"""Evidence: the node of a running task was ready in its ComputeDomain, and is not for too long a time."""
DOMAIN_DELETED = "domain_deleted"
"""Evidence: somebody deleted the ComputeDomain whose channels the group's tasks hold."""
DELETED_REASON = "DomainDeleted"

MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class DomainNode:
    """A node that a ComputeDomain lists; ``clique`` is empty if it reports none."""

    name: str
    clique: str
    is_ready: bool


@dataclass(frozen=True, slots=True)
class DomainHealth:
    """``expected`` counts the nodes of pods with claims; ``unready`` names those that are not ready.

    ``is_reported`` says that the domain lists nodes at all: else its controller may not report them.
    ``is_deleted`` says that it is gone or ends, so that no node is ready in it ever again. ``since`` is when
    each of the unready ones left the domain, or got a pod that it has not joined it for.
    """

    expected: int
    unready: tuple[str, ...]
    is_reported: bool = True
    is_deleted: bool = False
    since: Mapping[str, datetime] = field(default_factory=dict)

    @property
    def is_unknown(self) -> bool:
        return bool(self.unready) and not self.is_reported and not self.is_deleted

    @property
    def sentence(self) -> str:
        if self.is_deleted:
            return "Its ComputeDomain was deleted from outside: its nodes share no NVLink domain any more."
        if self.is_unknown:
            return (
                "Its ComputeDomain lists no node: none has joined yet, or the driver leaves IMEX to the host."
            )
        ready = self.expected - len(self.unready)
        nodes, verb = count_of(self.expected, "node"), agree(ready, "is", "are")
        text = f"{ready} of {nodes} of its NVLink domain {verb} ready"
        if not self.unready:
            return f"{text}."
        return f"{text}. Not ready: {plain_listing(map(self._named, self.unready), limit=MOST_NAMED)}."

    def _named(self, node: str) -> str:
        return f"{node} since {self.since[node]:%Y-%m-%d %H:%M} UTC" if node in self.since else node

    @property
    def condition(self) -> Condition:
        return Condition(
            type=NVLINK_READY,
            status="Unknown" if self.is_unknown else "False" if self.unready else "True",
            reason=self._reason,
            message=self.sentence,
        )

    @property
    def _reason(self) -> str:
        if self.is_deleted:
            return DELETED_REASON
        if self.is_unknown:
            return "NotReported"
        return "NodesNotReady" if self.unready else "AllNodesReady"


def domain_nodes(status: object) -> tuple[DomainNode, ...]:
    """The nodes that a domain's status lists; a malformed entry is left out, because a cluster wrote it."""
    entries = status.get("nodes") if isinstance(status, Mapping) else None
    rows = entries if isinstance(entries, list) else []
    return tuple(
        DomainNode(row["name"], str(row.get("cliqueID") or ""), row.get("status") == READY)
        for row in rows
        if isinstance(row, Mapping) and isinstance(row.get("name"), str)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelTask:
    """A try whose pod claims a channel, its node, and when that joined the domain and left it.

    ``holds`` says that its pod has not ended and so holds its channel, ``placed_at`` is when it got the node.
    """

    pk: int
    node: str
    holds: bool
    runs: bool
    placed_at: datetime | None
    joined_at: datetime | None
    left_at: datetime | None

    def out_since(self, now: datetime) -> datetime | None:
        """Since when its node, which is not ready now, is not."""
        return self.left_at or (now if self.joined_at else self.placed_at)


def health_of(nodes: Sequence[DomainNode], tasks: Iterable[ChannelTask], *, now: datetime) -> DomainHealth:
    """The health of a domain that lists these nodes, with the tasks whose pods claim its channels."""
    ready = {node.name for node in nodes if node.is_ready}
    by_node = {task.node: task for task in tasks}
    unready = tuple(sorted(by_node.keys() - ready))
    times = {node: by_node[node].out_since(now) for node in unready}
    since = {node: time for node, time in times.items() if time is not None}
    return DomainHealth(len(by_node), unready, is_reported=bool(nodes), since=since)


def deleted_domain(pod_nodes: Collection[str]) -> DomainHealth:
    """The health of a domain that somebody deleted under these nodes."""
    nodes = tuple(sorted(set(pod_nodes)))
    return DomainHealth(len(nodes), nodes, is_reported=False, is_deleted=True)


@dataclass(frozen=True, slots=True)
class Membership:
    """Tries whose nodes are now in their domain, and tries that run on a node that has left it."""

    joined: tuple[int, ...] = ()
    left: tuple[int, ...] = ()


def membership(tasks: Iterable[ChannelTask], health: DomainHealth) -> Membership:
    """The changes since these times were written.

    A node leaves only where it had joined, and only of a domain that reports nodes: so a controller that
    reports none, or not yet, ends no task.
    """
    joined, left = [], []
    for task in tasks:
        if task.node not in health.unready:
            if task.joined_at is None or task.left_at is not None:
                joined.append(task.pk)
        elif task.runs and health.is_reported and task.joined_at is not None and task.left_at is None:
            left.append(task.pk)
    return Membership(tuple(joined), tuple(left))
