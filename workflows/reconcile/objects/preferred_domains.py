"""Node affinity that leads pods to the domains that they prefer, where their scheduler has no preferences.

A task with placed peers is led to theirs. Otherwise the whole gang is placed in thought on the nodes as last
observed. Affinity of this kind holds nothing up, so a guess that has become wrong costs a preference alone.
"""

from collections.abc import Mapping
from functools import cached_property

from cluster.interface import Obj
from pools.clusters.capabilities import capabilities_at
from scheduling.backends.registry import traits_of
from scheduling.fit.preferring import preferred_labels
from workflows.feasibility.capacity.node_snapshot import demand_of, observed_nodes, selectors_of
from workflows.reconcile.objects.domains import DomainPins
from workflows.reconcile.observe import observations
from workflows.reconcile.view.group_view import GroupView
from workflows.values.placement import TaskTry

WEIGHT = 100
"""The most that node affinity may weigh."""
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class PreferredDomains:
    """The domains that lead the pods of a group; looked for once, if a task prefers one."""

    def __init__(self, view: GroupView, pins: DomainPins) -> None:
        self._view, self._pins = view, pins
        self._is_asked = traits_of(view.placement.terms.scheduler_type).prefers_by_affinity

    def lead(self, pod: Obj, task: TaskTry) -> Obj:
        """Add the affinity to a pod, if a task of its group prefers a domain."""
        terms = [_term(labels) for labels in self._labels_of(task)]
        if terms:
            affinity = pod["spec"].get("affinity") or {}
            nodes = affinity.get("nodeAffinity") or {}
            terms = [*(nodes.get(PREFERRED) or ()), *terms]
            pod["spec"]["affinity"] = {**affinity, "nodeAffinity": {**nodes, PREFERRED: terms}}
        return pod

    def _labels_of(self, task: TaskTry) -> tuple[Mapping[str, str], ...]:
        if not self._is_asked or not self._prefers:
            return ()
        return self._pins.preferred(task) or self._led.get(task.name, ())

    @cached_property
    def _prefers(self) -> bool:
        """Whether a task of the group prefers a domain: then the others are led, too, out of its way."""
        tasks = self._view.values.tasks
        return any(not requirement.required for task in tasks for requirement in task.placement.requirements)

    @cached_property
    def _led(self) -> Mapping[str, tuple[dict[str, str], ...]]:
        values, terms = self._view.values, self._view.placement.terms
        capabilities = capabilities_at(terms.scheduler_type, terms.scheduler_version)
        observed = observed_nodes(
            observations.cluster_of(self._view),
            selectors=selectors_of([values]),
            levels=terms.levels,
            capabilities=capabilities,
            without=[self._view.uuid],
        )
        demand = demand_of(values, capabilities=capabilities, with_preferences=True)
        return preferred_labels(observed.snapshot, demand)


def _term(labels: Mapping[str, str]) -> Obj:
    alike = [{"key": label, "operator": "In", "values": [value]} for label, value in labels.items()]
    return {"weight": WEIGHT, "preference": {"matchExpressions": alike}}
