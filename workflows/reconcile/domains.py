"""Domains on a scheduler that knows a domain by one label value: checks and node selectors before pods.

Such a scheduler cannot see two things. First, a value of a required label may be in two broader domains: a
submission refuses that, but if no node was known then, or labels have changed since, it shows only now, and
no object is created until the labels are corrected. Second, a task that is tried again must join peers whose
pod group is another one: node labels pin it to their domain, the broader labels included, since a domain is
a path.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import accumulate

from cluster.kinds import NODE
from pools.clusters.capabilities import capabilities_at
from pools.models import Cluster, Node
from scheduling.backends.registry import scheduler_backend
from scheduling.capabilities import Capability
from scheduling.levels import Domain
from scheduling.requirements import Requirement, SetPath
from workflows.reconcile import observations
from workflows.reconcile.group_view import GroupView
from workflows.reconcile.leased import LeasedCluster
from workflows.reconcile.outcomes import Retry
from workflows.values.observation import see_node
from workflows.values.placement import TaskTry


def check_domains(view: GroupView, cluster: LeasedCluster) -> Retry | None:
    """Hold back a gang whose required domains are ambiguous on the present nodes."""
    placement = view.placement
    capabilities = capabilities_at(placement.scheduler_type, placement.scheduler_version)
    if not placement.levels or Capability.TOPOLOGY_PATH_DOMAINS in capabilities:
        return None
    if not any(req.required for task in view.values.tasks for req in task.placement.requirements):
        return None
    checked = scheduler_backend(placement.scheduler_type).check(
        view.values.gang(),
        placement.levels,
        capabilities=capabilities,
        split_gangs=placement.split_gangs,
        domains=_domains(view, cluster),
        unsupported_preferred=placement.unsupported_preferred,
    )
    for fault in checked.faults:
        if fault.capability == Capability.TOPOLOGY_PATH_DOMAINS:
            return Retry(trouble=fault.message, slow=True)
    return None


def _domains(view: GroupView, cluster: LeasedCluster) -> set[Domain]:
    """The domains of the nodes that tasks of the group may use."""
    selectors = {tuple(sorted(task.placement.node_selector.items())) for task in view.values.tasks}
    labels = [level.label for level in view.placement.levels]
    return {
        tuple(carried.get(label) for label in labels)
        for carried in _nodes(view, cluster)
        if any(set(selector) <= carried.items() for selector in selectors)
    }


def _nodes(view: GroupView, cluster: LeasedCluster) -> list[Mapping[str, str]]:
    """The labels of the cluster's nodes: as observed, or live while the observer has not listed them."""
    uid = view.placement.cluster_uid or view.backend.cluster_id
    if Cluster.objects.filter(pk=uid, nodes_synced_at__isnull=False).exists():
        return list(observations.node_labels(view).values())
    return [node.labels for node in cluster.scan(NODE, see_node, namespace="")]


class Pins:
    """Node labels that keep tasks tried again in their peers' domains, where their pod group cannot.

    A pod group of a later attempt knows nothing of the pods of an earlier one.
    """

    def __init__(self, view: GroupView) -> None:
        self._view = view
        self._rank = {level.key: rank for rank, level in enumerate(view.placement.levels)}

    def of(self, task: TaskTry) -> dict[str, str]:
        """The labels of one task; none in the first attempt, or without a placed peer."""
        pins: dict[str, str] = {}
        if task.attempt:
            for path, requirement in self._sets(task):
                if requirement.required and (node := self._peers.get(path)):
                    pins |= self._down_to(self._rank[requirement.key], node)
        return pins

    def _sets(self, task: TaskTry) -> Iterator[tuple[SetPath, Requirement]]:
        """The co-location sets of a task, broadest first."""
        requirements = [r for r in task.placement.requirements if r.key in self._rank]
        requirements.sort(key=lambda requirement: self._rank[requirement.key])
        pairs = [((requirement.key, requirement.group),) for requirement in requirements]
        return zip(accumulate(pairs), requirements, strict=True)

    @cached_property
    def _peers(self) -> Mapping[SetPath, str]:
        """The node of a placed task, for each co-location set that has one."""
        placed = {task.name: task.node_name for task in self._view.tasks if task.live and task.node_name}
        return {
            path: placed[peer.name]
            for peer in self._view.values.tasks
            if peer.name in placed
            for path, _ in self._sets(peer)
        }

    def _down_to(self, rank: int, node: str) -> dict[str, str]:
        view = self._view
        uid = view.placement.cluster_uid or view.backend.cluster_id
        rows = Node.objects.filter(cluster_id=uid, name=node)
        carried = rows.values_list("labels", flat=True).first() or {}
        labels = [level.label for level in view.placement.levels[: rank + 1]]
        return {label: carried[label] for label in labels if label in carried}
