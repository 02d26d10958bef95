"""Domains for a gang's preferences, where its scheduler has none and node affinity leads the pods.

The gang is placed by the rules of ``greedy``, which try the preferred domains first. A set that stands in one
domain of its preferred level is led there; one that does not, to the narrowest broader domain that holds it.
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
    """The node labels that lead each task, one set of labels for each preference; none without a place."""
    snapshot = Snapshot.of(snapshot.nodes, snapshot.levels, paths=True, is_complete=snapshot.is_complete)
    board = Board(snapshot)
    placer = Placer(board, gang)
    if not placer.run():
        return {}
    nodes = dict(placer.where)
    board.rollback(0)
    led: dict[str, tuple[NodeLabels, ...]] = {}
    for node in gang.tree.root.walk():
        labels = _labels(snapshot, node, nodes)
        for task in node.all_tasks() if labels else ():
            led[task.name] = (*led.get(task.name, ()), labels)
    return led


def _labels(snapshot: Snapshot, node: ConstraintNode, nodes: Mapping[str, int]) -> NodeLabels:
    """The labels of the narrowest domain, of those that the set prefers, that all its tasks stand in."""
    constraint = node.constraint
    if constraint.preferred is None:
        return {}
    broadest = -1 if constraint.required is None else constraint.required
    for rank in range(constraint.preferred, broadest, -1):
        domains = {snapshot.places[nodes[task.name]][rank] for task in node.all_tasks()}
        if len(domains) == 1 and (at := domains.pop()) is not None:
            path, levels = snapshot.domains[rank][at].path, snapshot.levels[: rank + 1]
            return {level.label: value for level, value in zip(levels, path, strict=True)}
    return {}
