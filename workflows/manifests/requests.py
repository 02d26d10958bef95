"""The resources that a task's pod requests, as schedulers count them.

A pod template may change the user's amounts, add resources and add containers. Kubernetes' rule: containers
and sidecars together, at least the largest init container, plus the overhead; a container without a request
for a resource requests its limit.
"""

from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Any

from cluster.quantities import quantity
from scheduling.kubernetes_syntax import GPU
from workflows.manifests.pod import amounts_of, task_values
from workflows.manifests.pod_template import apply_template
from workflows.manifests.start_barrier import barrier_resources
from workflows.values.observation import DOMAIN_LABEL
from workflows.values.placement import FrozenTemplate, TaskPlacement

Requests = dict[str, Decimal]

_NAME = "task"
_THOUSANDTH = Decimal("0.001")


def requests_of(
    placement: TaskPlacement, template: FrozenTemplate | None, *, submitted_by: str, has_barrier: bool
) -> Requests:
    """The requests of a task's pod as it is sent, by resource, without those that are zero."""
    amounts = amounts_of(placement)
    container = {"name": _NAME, "resources": {"requests": amounts, "limits": amounts}}
    spec: Mapping[str, Any] = {"containers": [container]}
    if template is not None and "spec" in template.pod:
        values = task_values(_NAME, placement, submitted_by=submitted_by, labels={})
        pod = {"metadata": {}, "spec": spec}
        spec = apply_template(pod, template, task=values, labels={}, fixed=())["spec"]
    if has_barrier:
        barrier = barrier_resources(spec["containers"])
        spec = {**spec, "initContainers": [*(spec.get("initContainers") or ()), barrier]}
    return {resource: amount for resource, amount in _total(spec).items() if amount}


def part_for_node(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a pod's spec by which a node is chosen, without claims: only nodes count those."""
    part = {key: spec[key] for key in _OF_NODE if key in spec}
    for kind in ("initContainers", "containers"):
        if containers := spec.get(kind):
            part[kind] = [_container(container) for container in containers]
    return part


def for_a_claim(spec: Mapping[str, Any], *, gpus: int) -> dict[str, Any]:
    """The same part with so many GPUs at least, off the nodes whose NVLink channel a ComputeDomain holds.

    Those are known by the label of NVIDIA's driver.
    A node has the label from the first pod with a claim until the domain is gone, so pods themselves must
    not ask for this: one that is tried again finds the label of its own domain.
    """
    free = {"key": DOMAIN_LABEL, "operator": "DoesNotExist"}
    return on_nodes_with({**spec, "containers": _raised(spec["containers"], gpus)}, [free])


def on_nodes_with(spec: Mapping[str, Any], expressions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The spec of a pod for those of its nodes that match these expressions, too."""
    affinity = spec.get("affinity") or {}
    by_node = affinity.get("nodeAffinity") or {}
    terms = (by_node.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    narrowed = [
        {**term, "matchExpressions": [*(term.get("matchExpressions") or ()), *expressions]} for term in terms
    ]
    required = {_REQUIRED: {"nodeSelectorTerms": narrowed}}
    return {**spec, "affinity": {**affinity, "nodeAffinity": {**by_node, **required}}}


def _raised(containers: Sequence[Mapping[str, Any]], gpus: int) -> list[Mapping[str, Any]]:
    """The containers, of which the first with GPUs asks for what the others lack of this number."""
    lacking = gpus - _sum(containers).get(GPU, Decimal(0))
    raised = list(containers)
    for place, container in enumerate(containers):
        if lacking > 0 and (own := _sum((container,)).get(GPU)):
            amounts = {kind: {**of, GPU: str(own + lacking)} for kind, of in container["resources"].items()}
            raised[place] = {**container, "resources": amounts}
            break
    return raised


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


_OF_NODE = ("restartPolicy", "nodeSelector", "affinity", "tolerations", "overhead", "runtimeClassName")


def _container(container: Mapping[str, Any]) -> dict[str, Any]:
    part = {key: container[key] for key in ("name", "image", "restartPolicy") if key in container}
    resources = container.get("resources") or {}
    amounts = {kind: resources[kind] for kind in ("requests", "limits") if resources.get(kind)}
    return {**part, **({"resources": amounts} if amounts else {})}


def _total(spec: Mapping[str, Any]) -> Requests:
    total, sidecars, peak = _sum(spec.get("containers") or ()), Requests(), Requests()
    for container in spec.get("initContainers") or ():
        requests = _sum((container,))
        if container.get("restartPolicy") == "Always":
            _add(sidecars, requests)
            requests = Requests()
        for resource in {*requests, *sidecars}:
            need = requests.get(resource, Decimal(0)) + sidecars.get(resource, Decimal(0))
            peak[resource] = max(peak.get(resource, Decimal(0)), need)
    _add(total, sidecars)
    for resource, amount in peak.items():
        total[resource] = max(total.get(resource, Decimal(0)), amount)
    _add(total, {resource: _number(str(text)) for resource, text in (spec.get("overhead") or {}).items()})
    return total


def _sum(containers: Iterable[Mapping[str, Any]]) -> Requests:
    total = Requests()
    for container in containers:
        resources = container.get("resources") or {}
        amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        _add(total, {resource: _number(str(text)) for resource, text in amounts.items()})
    return total


def _add(total: Requests, more: Mapping[str, Decimal]) -> None:
    for resource, amount in more.items():
        total[resource] = total.get(resource, Decimal(0)) + amount


@lru_cache(maxsize=4096)
def _number(text: str) -> Decimal:
    """Read a quantity, rounded up to thousandths as the API server does (``SetDefaults_ResourceList``).

    One that cannot be read counts as zero, since the API server refuses such a pod.
    """
    try:
        amount = quantity(text)
        return amount.quantize(_THOUSANDTH, rounding=ROUND_CEILING) if amount % _THOUSANDTH else amount
    except ValueError:
        return Decimal(0)
