"""A group's ComputeDomain on a page: clique by clique, with the nodes that have not joined.

NVLink joins the nodes of one clique; a ComputeDomain over several cliques connects each of them alone. Its
status describes the nodes that it lists, and it may list fewer nodes than the group's tasks use: it is Ready
before any node has joined. So the page leaves out the status and counts nodes instead. Pure.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pages.workflows.labels import Badge
from workflows.lifecycle.domain_health import READY, DomainNode, domain_nodes

DomainStage = Literal["before", "live", "ended"]
"""Of a group: whether anything of it is to be in the cluster yet, or still."""

_ABSENT: Mapping[DomainStage, tuple[Badge, str]] = {
    "before": (Badge("", "Not made yet", "○", ""), "It is made when the group's turn has come."),
    "live": (Badge("", "Not there", "○", "warn"), "The cluster does not have it yet."),
    "ended": (Badge("", "Gone", "○", ""), "It was deleted with the end of its group."),
}
MOST_NODES = 40
"""Nodes of one clique that are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clique:
    """The nodes of a ComputeDomain in one clique; ``name`` is empty for nodes that report none."""

    name: str
    nodes: tuple[DomainNode, ...]
    more: int
    count: int
    ready: int

    @property
    def badge(self) -> Badge:
        return _ready_badge(self.ready == self.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeDomainView:
    """``missing`` are nodes of tasks that it does not list; ``expected`` counts the nodes with tasks."""

    group: str
    name: str
    namespace: str
    badge: Badge
    sentence: str
    cliques: tuple[Clique, ...]
    expected: int
    joined: int
    missing: tuple[str, ...]
    more_missing: int
    observed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeDomainStatus:
    """A ComputeDomain as last observed; ``status`` is the cluster's."""

    status: Mapping[str, Any]
    deleting: bool
    observed_at: datetime


def compute_domain_view(
    *,
    group: str,
    name: str,
    namespace: str,
    observed: ComputeDomainStatus | None,
    stage: DomainStage,
    task_nodes: Collection[str],
) -> ComputeDomainView:
    """Describe a group's ComputeDomain; ``task_nodes`` are the nodes of its tasks that claim a channel."""
    nodes = domain_nodes(observed.status) if observed else ()
    listed = {node.name for node in nodes}
    missing = sorted(set(task_nodes) - listed) if observed and not observed.deleting else []
    cliques = _cliques(nodes)
    return ComputeDomainView(
        group=group,
        name=name,
        namespace=namespace,
        badge=_badge(observed, cliques, stage=stage, expected=len(task_nodes)),
        sentence=_sentence(observed, cliques, stage=stage, expected=len(task_nodes)),
        cliques=cliques,
        expected=len(task_nodes),
        joined=len(listed),
        missing=tuple(missing[:MOST_NODES]),
        more_missing=max(0, len(missing) - MOST_NODES),
        observed_at=observed.observed_at if observed else None,
    )


def _cliques(nodes: Sequence[DomainNode]) -> tuple[Clique, ...]:
    members_by_clique: dict[str, list[DomainNode]] = defaultdict(list)
    for node in nodes:
        members_by_clique[node.clique].append(node)
    return tuple(
        Clique(
            name=name,
            nodes=tuple(sorted(members, key=lambda member: member.name)[:MOST_NODES]),
            more=max(0, len(members) - MOST_NODES),
            count=len(members),
            ready=sum(member.is_ready for member in members),
        )
        for name, members in sorted(members_by_clique.items())
    )


def _badge(
    observed: ComputeDomainStatus | None, cliques: Sequence[Clique], *, stage: DomainStage, expected: int
) -> Badge:
    """Ready if it lists all nodes of its tasks, and lists them as ready."""
    if observed is None:
        return _ABSENT[stage][0]
    if observed.deleting:
        return Badge("", "Being taken down", "◌", "warn")
    if not cliques:
        return Badge("", "Waits for nodes", "◷", "warn")
    joined, ready = sum(clique.count for clique in cliques), sum(clique.ready for clique in cliques)
    return _ready_badge(ready == joined >= expected)


def _ready_badge(ready: bool) -> Badge:  # noqa: FBT001 -- the one thing it is about
    return Badge(READY, READY, "✓", "good") if ready else Badge("NotReady", "Not ready", "◷", "warn")


def _sentence(
    observed: ComputeDomainStatus | None, cliques: Sequence[Clique], *, stage: DomainStage, expected: int
) -> str:
    if observed is None:
        return _ABSENT[stage][1]
    if not cliques:
        return "No node has joined it yet; nodes join when tasks are placed on them."
    joined, ready = sum(clique.count for clique in cliques), sum(clique.ready for clique in cliques)
    of = f" of {expected}" if expected > joined else ""
    text = f"{joined}{of} {'node has' if joined == 1 and not of else 'nodes have'} joined it, {ready} ready."
    if len(cliques) > 1:
        text += f" It spans {len(cliques)} cliques: NVLink joins the nodes within each, not across them."
    return text
