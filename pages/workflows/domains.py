"""A group's ComputeDomain as a page shows it: clique by clique, with the nodes that are still missing.

NVLink joins the nodes of one clique; a ComputeDomain over several is served in each of them alone. What its
status says is true of the nodes it lists, and it may list fewer than the group's tasks stand on: it is Ready
before any has joined. So its own word is left out, and nodes are counted instead (ComputeDomain v1beta1:
``status.nodes`` with name, cliqueID and status). Pure.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pages.workflows.labels import Look

READY = "Ready"
Stage = Literal["before", "live", "ended"]
"""Of a group: whether anything of it is to be in the cluster yet, or still."""

_ABSENT: Mapping[Stage, tuple[Look, str]] = {
    "before": (Look("", "Not made yet", "○", ""), "It is made when the group's turn has come."),
    "live": (Look("", "Not there", "○", "warn"), "The cluster does not have it yet."),
    "ended": (Look("", "Gone", "○", ""), "It was deleted with the end of its group."),
}
MOST_NODES = 40
"""Nodes of one clique that are named."""


@dataclass(frozen=True, slots=True)
class Member:
    name: str
    ready: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Clique:
    """The nodes of a ComputeDomain in one clique; ``name`` is empty for nodes that report none."""

    name: str
    nodes: tuple[Member, ...]
    more: int
    count: int
    ready: int

    @property
    def look(self) -> Look:
        return _ready_look(self.ready == self.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainShown:
    """``missing`` are nodes of tasks that it does not list; ``expected`` is how many nodes tasks stand on."""

    group: str
    name: str
    namespace: str
    look: Look
    said: str
    cliques: tuple[Clique, ...]
    expected: int
    joined: int
    missing: tuple[str, ...]
    more_missing: int
    seen_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainSeen:
    """What was last seen of a ComputeDomain; ``status`` is the cluster's."""

    status: Mapping[str, Any]
    deleting: bool
    seen_at: datetime


def domain_shown(
    *,
    group: str,
    name: str,
    namespace: str,
    seen: DomainSeen | None,
    stage: Stage,
    stands_on: Collection[str],
) -> DomainShown:
    """Put a group's ComputeDomain in words; ``stands_on`` are the nodes of its tasks that claim a channel."""
    nodes = _nodes(seen.status) if seen else []
    listed = {node["name"] for node in nodes}
    missing = sorted(set(stands_on) - listed) if seen and not seen.deleting else []
    cliques = _cliques(nodes)
    return DomainShown(
        group=group,
        name=name,
        namespace=namespace,
        look=_look(seen, cliques, stage=stage, expected=len(stands_on)),
        said=_said(seen, cliques, stage=stage, expected=len(stands_on)),
        cliques=cliques,
        expected=len(stands_on),
        joined=len(listed),
        missing=tuple(missing[:MOST_NODES]),
        more_missing=max(0, len(missing) - MOST_NODES),
        seen_at=seen.seen_at if seen else None,
    )


def _nodes(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The nodes a status lists; it comes from a cluster, so what is no node is left out."""
    found = status.get("nodes")
    rows = found if isinstance(found, list) else []
    return [one for one in rows if isinstance(one, Mapping) and isinstance(one.get("name"), str)]


def _cliques(nodes: Sequence[Mapping[str, Any]]) -> tuple[Clique, ...]:
    found: dict[str, list[Member]] = defaultdict(list)
    for node in nodes:
        found[str(node.get("cliqueID") or "")].append(Member(node["name"], node.get("status") == READY))
    return tuple(
        Clique(
            name=name,
            nodes=tuple(sorted(members, key=lambda one: one.name)[:MOST_NODES]),
            more=max(0, len(members) - MOST_NODES),
            count=len(members),
            ready=sum(one.ready for one in members),
        )
        for name, members in sorted(found.items())
    )


def _look(seen: DomainSeen | None, cliques: Sequence[Clique], *, stage: Stage, expected: int) -> Look:
    """Ready is one that lists all nodes of its tasks, and lists them as ready."""
    if seen is None:
        return _ABSENT[stage][0]
    if seen.deleting:
        return Look("", "Being taken down", "◌", "warn")
    if not cliques:
        return Look("", "Waits for nodes", "◷", "warn")
    joined, ready = sum(one.count for one in cliques), sum(one.ready for one in cliques)
    return _ready_look(ready == joined >= expected)


def _ready_look(ready: bool) -> Look:  # noqa: FBT001 -- the one thing it is about
    return Look(READY, READY, "✓", "good") if ready else Look("NotReady", "Not ready", "◷", "warn")


def _said(seen: DomainSeen | None, cliques: Sequence[Clique], *, stage: Stage, expected: int) -> str:
    if seen is None:
        return _ABSENT[stage][1]
    if not cliques:
        return "No node has joined it yet; nodes join when tasks are placed on them."
    joined, ready = sum(one.count for one in cliques), sum(one.ready for one in cliques)
    of = f" of {expected}" if expected > joined else ""
    text = f"{joined}{of} {'node has' if joined == 1 and not of else 'nodes have'} joined it, {ready} ready."
    if len(cliques) > 1:
        text += f" It spans {len(cliques)} cliques: NVLink joins the nodes within each, not across them."
    return text
