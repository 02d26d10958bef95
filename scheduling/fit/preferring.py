"""Domains for a gang's preferences, where its scheduler has none and node affinity leads the pods.

The gang is placed by the rules of ``greedy``, which try the preferred domains first. A set that stands in one
domain of its preferred level is led there; one that does not, to the narrowest broader domain that holds it,
and each task of it to its own narrow one. So is a task without preferences: it would take the room of others.
Node affinity counts inside a gang and never blocks it (seen on kube-scheduler 1.37.2: 8 of 8 sets followed
it, and a domain that had become too small kept nothing from its place).
"""

from collections.abc import Mapping

from scheduling.fit.board import Board
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.greedy import Placer
from scheduling.fit.snapshot import Snapshot
from scheduling.gang.tree import ConstraintNode

NodeLabels = dict[str, str]


def preferred_labels(snapshot: Snapshot, gang: GangDemand) -> Mapping[str, tuple[NodeLabels, ...]]:
    """The node labels that lead each task, none without a place; each set of labels is a preference."""
    snapshot = Snapshot.of(snapshot.nodes, snapshot.levels, paths=True, is_complete=snapshot.is_complete)
    board = Board(snapshot)
    placer = Placer(board, gang)
    if not placer.run():
        return {}
    nodes = dict(placer.where)
    board.rollback(0)
    led: dict[str, tuple[NodeLabels, ...]] = {}
    preferring = [node for node in gang.tree.root.walk() if node.constraint.preferred is not None]
    apart = {task.name for task in gang.tree.root.all_tasks()} if preferring else set()
    for node in preferring:  # the narrowest set of a task comes last
        rank, at = _shared(snapshot, node, nodes)
        names = {task.name for task in node.all_tasks()}
        if at is not None:
            labels = _labels(snapshot, rank, at)
            led |= {name: (*led.get(name, ()), labels) for name in names}
        apart = apart - names if rank == node.constraint.preferred else apart | names
    narrowest = len(snapshot.levels) - 1
    for name in apart:
        if (at := snapshot.places[nodes[name]][narrowest]) is not None:
            led[name] = (*led.get(name, ()), _labels(snapshot, narrowest, at))
    return led


def _shared(snapshot: Snapshot, node: ConstraintNode, nodes: Mapping[str, int]) -> tuple[int, int | None]:
    """The narrowest domain, of those that the set prefers, that all its tasks stand in; none without one."""
    constraint = node.constraint
    assert constraint.preferred is not None
    broadest = -1 if constraint.required is None else constraint.required
    for rank in range(constraint.preferred, broadest, -1):
        domains = {snapshot.places[nodes[task.name]][rank] for task in node.all_tasks()}
        if len(domains) == 1 and (at := domains.pop()) is not None:
            return rank, at
    return broadest, None


def _labels(snapshot: Snapshot, rank: int, at: int) -> NodeLabels:
    path, levels = snapshot.domains[rank][at].path, snapshot.levels[: rank + 1]
    return {level.label: value for level, value in zip(levels, path, strict=True)}
