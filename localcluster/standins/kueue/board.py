"""What is used while a cycle decides: quotas of queues and room on nodes, by workload."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from localcluster.standins.kueue import place
from localcluster.standins.kueue.values import PODS, Admission, Node, PodSetAdmission, Snapshot, Workload
from localcluster.standins.quantities import UNIT, Amounts, add

Share = tuple[str, str, str]
"""Cluster queue, flavor, resource."""


def reserves(workload: Workload) -> bool:
    """Whether it counts: from its reservation until it is finished or gone, evicted or not."""
    return (
        workload.admission is not None and workload.holds("QuotaReserved") and not workload.holds("Finished")
    )


@dataclass(slots=True)
class Board:
    """``admissions`` are those that count now, by workload's uid; trees are kept while no node changes."""

    snapshot: Snapshot
    admissions: dict[str, tuple[Workload, Admission]] = field(default_factory=dict)
    trees: dict[str, place.Tree] = field(default_factory=dict)
    foreign: dict[str, Amounts] = field(default_factory=dict)
    quota: dict[Share, int] = field(default_factory=dict)
    room: dict[str, dict[place.Path, Amounts]] = field(default_factory=dict)
    """By the topology's last level and path of the leaf."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Board":
        board = cls(snapshot)
        for pod in snapshot.pods:
            if not pod.topology_aware:
                before = board.foreign.get(pod.node, {})
                board.foreign[pod.node] = add(before, {**pod.requests, PODS: UNIT})
        for workload in snapshot.workloads:
            if reserves(workload) and workload.admission is not None:
                board.enter(workload, workload.admission)
        return board

    def enter(self, workload: Workload, admission: Admission) -> None:
        """Count an admission."""
        self.admissions[workload.uid] = (workload, admission)
        self._account(workload, admission, 1)

    def remove(self, workload: Workload) -> Admission:
        """Count it no more."""
        _, admission = self.admissions.pop(workload.uid)
        self._account(workload, admission, -1)
        return admission

    def tree(self, flavor: str) -> place.Tree | None:
        """The nodes of a flavor with a topology, without what workloads use there."""
        if flavor not in self.trees:
            resource_flavor = next((each for each in self.snapshot.flavors if each.name == flavor), None)
            topologies = {each.name: each for each in self.snapshot.topologies}
            if resource_flavor is None or resource_flavor.topology not in topologies:
                return None
            topology = topologies[resource_flavor.topology]
            self.trees[flavor] = place.tree(topology, resource_flavor, self.snapshot.nodes, self.foreign)
        return self.trees[flavor]

    def usage(self, tree: place.Tree) -> dict[place.Path, Amounts]:
        """The workloads' use of the tree's leaves; a node's use counts in whatever flavor it stands."""
        key = _key(tree)
        if not tree.by_node:
            return self.room.get(key, {})
        used = self.room.get(key, {})
        return {leaf.path: used[leaf.path[-1:]] for leaf in tree.leaves if leaf.path[-1:] in used}

    def _account(self, workload: Workload, admission: Admission, sign: int) -> None:
        pod_sets = {each.name: each for each in workload.pod_sets}
        for admitted in admission.pod_sets:
            flavors = dict(admitted.flavors)
            for resource, amount in admitted.usage:
                if resource in flavors:
                    share = (admission.queue, flavors[resource], resource)
                    self.quota[share] = self.quota.get(share, 0) + sign * amount
            requests = pod_sets[admitted.name].requests if admitted.name in pod_sets else {}
            self._account_nodes(admitted, place.single(requests), sign)

    def _account_nodes(self, admitted: PodSetAdmission, single: Mapping[str, int], sign: int) -> None:
        if admitted.assignment is None:
            return
        levels = admitted.assignment.levels
        key = levels[-1] if admitted.assignment.by_node else "/".join(levels)
        room = self.room.setdefault(key, {})
        for values, pods in admitted.assignment.domains:
            room[values] = add(room.get(values, {}), place.times(single, sign * pods))


def _key(tree: place.Tree) -> str:
    return tree.levels[-1] if tree.by_node else "/".join(tree.levels)


def lost_nodes(admission: Admission, nodes: Iterable[Node]) -> list[str]:
    """Nodes of an assignment that are gone or not ready, in the order of the assignment."""
    ready = {node.name for node in nodes if node.ready}
    assignments = [each.assignment for each in admission.pod_sets]
    named = [
        values[-1] for each in assignments if each is not None and each.by_node for values, _ in each.domains
    ]
    return list(dict.fromkeys(name for name in named if name not in ready))
