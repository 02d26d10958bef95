"""The usage of a pod on its node, counted as schedulers count it. Pure.

Containers run side by side, init containers one after the other, and a *sidecar* (an init container with
``restartPolicy: Always``) beside everything that comes after it. So a pod needs at any time at most the
larger of two: all containers and sidecars together; the costliest init container with the sidecars before
it. Requests of the pod itself replace that, and its runtime's overhead is added.

Source: Kubernetes 1.36 ``component-helpers/resource/helpers.go``. Left out: a resize that is under way, of
which a scheduler counts the larger size.
"""

from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Any

from cluster.quantities import quantity
from scheduling.foreign.written import entries, mapping
from scheduling.kubernetes_syntax import GPU

PodUsage = tuple[int, int, int, int, int]
"""GPUs, thousandths of a core, bytes of memory, bytes of ephemeral storage, pods."""

NO_USAGE: PodUsage = (0, 0, 0, 0, 0)
MOST = 2**62
"""No sum is larger: it must fit the column, whatever a cluster writes."""

_NAMES = (GPU, "cpu", "memory", "ephemeral-storage")
_POD_LEVEL = ("cpu", "memory")
"""Resources that a pod itself may request and that are counted here."""

MOST_NAMES = 64
"""Resources of a pod that are counted."""

_Amounts = tuple[int, ...]


def usage_of(spec: Mapping[str, Any]) -> PodUsage:
    """The usage of a pod with this spec."""
    gpu, cpu, memory, storage = _needed(spec, _NAMES)
    return (gpu, cpu, memory, storage, 1)


def requests_of(spec: Mapping[str, Any]) -> dict[str, int]:
    """The usage of a pod with this spec by resource, of every resource that it names, without zeros."""
    groups = [*entries(spec.get("initContainers")), *entries(spec.get("containers")), spec]
    listed = [_requested(group) for group in groups]
    names = tuple(sorted({*_NAMES, *(name for requests in listed for name in requests)})[:MOST_NAMES])
    return {name: amount for name, amount in zip(names, _needed(spec, names), strict=True) if amount}


def _needed(spec: Mapping[str, Any], names: Sequence[str]) -> _Amounts:
    none = (0,) * len(names)
    sidecars, costliest = none, none
    for container in entries(spec.get("initContainers")):
        requests = _requests(container, names)
        if container.get("restartPolicy") == "Always":
            requests = sidecars = plus(sidecars, requests)
        else:
            requests = plus(sidecars, requests)
        costliest = tuple(map(max, costliest, requests))
    running = sidecars
    for container in entries(spec.get("containers")):
        running = plus(running, _requests(container, names))
    needed = _pod_level(spec, tuple(map(max, running, costliest)), names)
    return plus(needed, _amounts(spec.get("overhead"), names))


def plus(left: Sequence[int], right: Sequence[int]) -> _Amounts:
    """The sum, bounded."""
    return tuple(min(MOST, a + b) for a, b in zip(left, right, strict=True))


def _pod_level(spec: Mapping[str, Any], needed: _Amounts, names: Sequence[str]) -> _Amounts:
    """The requests of the pod itself, where it has any, else those of its containers."""
    requests = _requested(spec)
    is_set = [name in _POD_LEVEL and name in requests for name in names]
    return tuple(
        pod if is_pod_level else containers
        for pod, containers, is_pod_level in zip(_amounts(requests, names), needed, is_set, strict=True)
    )


def _requests(container: Mapping[str, Any], names: Sequence[str]) -> _Amounts:
    return _amounts(_requested(container), names)


def _requested(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """The requests of a container or a pod.

    Limits stand for those that are missing: an API server writes that into pods, not into templates of them.
    """
    resources = mapping(container.get("resources"))
    limits, requests = mapping(resources.get("limits")), mapping(resources.get("requests"))
    return {**limits, **requests} if limits else requests


def _amounts(quantities: object, names: Sequence[str]) -> _Amounts:
    written = mapping(quantities)
    if not written:
        return (0,) * len(names)
    return tuple(_number(str(written.get(name, "0")), name) for name in names)


@lru_cache(maxsize=4096)
def _number(text: str, name: str) -> int:
    """A quantity in whole units, rounded up; text that is no quantity counts as 0."""
    try:
        amount = quantity(text) * (1000 if name == "cpu" else 1)
    except ValueError:
        return 0
    return int(min(max(amount, Decimal(0)), Decimal(MOST)).to_integral_value(rounding=ROUND_CEILING))
