"""Domains that a scheduler does not see: checks and node selectors before pods.

A scheduler that knows a domain by one label value does not see that a value of a required label is in two
broader domains: a submission refuses that, but if no node was known then, or labels have changed since, it
shows only now, and no object is created until the labels are corrected.

Sets inside sets are made for no scheduler that is not known to hold them at that time. It is checked before
each attempt and not later, since node labels keep replacements in their domain.

A task that is tried again must join its peers, and schedulers do not hold it to their domain: a pod group of
a later generation knows nothing of the pods of an earlier one, and KAI from v0.15 on looks only at subgroups
with pods to place ("Replacements leave their domain"). So node labels pin it to the peers' domain, the
broader labels included, since a domain is a path.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import accumulate

from cluster.kinds import NODE
from pools.clusters.capabilities import capabilities_at
from pools.models import Cluster, Node
from pools.services import composites
from pools.values.completeness import NODES, where_known
from scheduling.backends.registry import scheduler_backend
from scheduling.capabilities import Capability
from scheduling.topology.levels import DomainPath
from scheduling.topology.requirements import Requirement, SetPath
from workflows.reconcile.observe import observations
from workflows.reconcile.view.group_view import GroupView
from workflows.reconcile.view.leased import LeasedCluster
from workflows.reconcile.view.outcomes import Retry
from workflows.values.observation import see_node
from workflows.values.placement import TaskTry


def check_composites(view: GroupView) -> Retry | None:
    """Hold back an attempt whose sets its scheduler would place one by one, or is not known to hold."""
    scheduler = scheduler_backend(view.placement.terms.scheduler_type)
    if not scheduler.hidden_gate or view.row.created_in_cluster_at is not None:
        return None
    if not any(gang.parents for gang in view.gangs.values()):
        return None
    sentence = composites.unheld_sentence(view.backend)
    return Retry(trouble=sentence, slow=True) if sentence else None


def check_domains(view: GroupView, cluster: LeasedCluster) -> Retry | None:
    """Hold back a gang whose required domains are ambiguous on the present nodes."""
    placement = view.placement
    capabilities = capabilities_at(placement.terms.scheduler_type, placement.terms.scheduler_version)
    if not placement.terms.levels or Capability.TOPOLOGY_PATH_DOMAINS in capabilities:
        return None
    if not view.values.requires_domain:
        return None
    checked = scheduler_backend(placement.terms.scheduler_type).rendering.check(
        view.values.gang,
        placement.terms.levels,
        capabilities=capabilities,
        domains=_domains(view, cluster),
        unsupported_preferred=placement.terms.unsupported_preferred,
    )
    for fault in checked.faults:
        if fault.capability == Capability.TOPOLOGY_PATH_DOMAINS:
            return Retry(trouble=fault.message, slow=True)
    return None


def _domains(view: GroupView, cluster: LeasedCluster) -> set[DomainPath]:
    """The domains of the nodes that tasks of the group may use."""
    selectors = {tuple(sorted(task.placement.node_selector.items())) for task in view.values.tasks}
    labels = [level.label for level in view.placement.terms.levels]
    return {
        tuple(carried.get(label) for label in labels)
        for carried in _nodes(view, cluster)
        if any(set(selector) <= carried.items() for selector in selectors)
    }


def _nodes(view: GroupView, cluster: LeasedCluster) -> list[Mapping[str, str]]:
    """The labels of the cluster's nodes: as observed, or live while the observer has not listed them."""
    uid = view.placement.terms.cluster_uid or view.backend.cluster_id
    if Cluster.objects.filter(where_known(NODES), pk=uid).exists():
        return list(observations.node_labels(view).values())
    return [node.labels for node in cluster.scan(NODE, see_node, namespace="")]


def pins_text(pins: Mapping[str, str]) -> str:
    """Pins as a pod's annotation has them."""
    return json.dumps(pins, sort_keys=True)


class DomainPins:
    """Node labels that keep tasks tried again in their peers' domains, where their pod group cannot.

    A set without a placed peer adds nothing, so its tasks are held to the domain of the broader sets alone.
    """

    def __init__(self, view: GroupView) -> None:
        self._view = view
        self._is_edited = scheduler_backend(view.placement.terms.scheduler_type).edits_pod_groups
        self._rank = {level.key: rank for rank, level in enumerate(view.placement.terms.levels)}
        self._labels: dict[str, Mapping[str, str]] = {}

    def of(self, task: TaskTry) -> dict[str, str]:
        """The labels of one task; none for a first try, in its peers' own pod group, or without peers."""
        pins: dict[str, str] = {}
        if task.replaces and (task.generation or self._is_edited):
            for path, requirement in self._sets_of(task):
                if requirement.required and (node := self._peers.get(path)):
                    pins |= self._down_to(self._rank[requirement.key], node)
        return pins

    def preferred(self, task: TaskTry) -> tuple[dict[str, str], ...]:
        """The labels of its peers' domains that a task prefers; none without placed peers."""
        led = (
            self._down_to(self._rank[requirement.key], node)
            for path, requirement in self._sets_of(task)
            if not requirement.required and (node := self._peers.get(path))
        )
        return tuple(filter(None, led))

    @property
    def are_known(self) -> bool:
        """Whether the labels of all nodes that pin a task are known."""
        return all(self._carried(node) for node in set(self._peers.values()))

    @cached_property
    def _peers(self) -> Mapping[SetPath, str]:
        """The node of a placed task, for each co-location set that has one."""
        placed = {task.name: task.node_name for task in self._view.tasks if task.live and task.node_name}
        peers: dict[SetPath, str] = {}
        for peer in self._view.values.tasks:
            for path, _ in self._sets_of(peer) if peer.name in placed else ():
                peers.setdefault(path, placed[peer.name])
        return peers

    def _sets_of(self, task: TaskTry) -> Iterator[tuple[SetPath, Requirement]]:
        """The co-location sets of a task, broadest first."""
        rank = self._rank
        requirements = [req for req in task.placement.requirements if req.key in rank]
        requirements.sort(key=lambda requirement: rank[requirement.key])
        pairs = [((requirement.key, requirement.group),) for requirement in requirements]
        return zip(accumulate(pairs), requirements, strict=True)

    def _down_to(self, rank: int, node: str) -> dict[str, str]:
        carried = self._carried(node)
        labels = [level.label for level in self._view.placement.terms.levels[: rank + 1]]
        return {label: carried[label] for label in labels if label in carried}

    def _carried(self, node: str) -> Mapping[str, str]:
        """The labels of a node, read once."""
        if node not in self._labels:
            uid = self._view.placement.terms.cluster_uid or self._view.backend.cluster_id
            rows = Node.objects.filter(cluster_id=uid, name=node)
            self._labels[node] = rows.values_list("labels", flat=True).first() or {}
        return self._labels[node]
