"""What a pod holds of its node, counted as schedulers count it. Pure.

Containers run side by side, init containers one after the other, and a *sidecar* (an init container with
``restartPolicy: Always``) beside everything that comes after it. So a pod needs at any time at most the
larger of two: all containers and sidecars together; the costliest init container with the sidecars before
it. What is asked for the pod as a whole goes over that, and its runtime's overhead is added.

Source: Kubernetes 1.36 ``component-helpers/resource/helpers.go``. Left out: a resize that is under way, of
which a scheduler counts the larger size.
"""

from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Any

from cluster.quantities import quantity
from scheduling.kubernetes_syntax import GPU

Held = tuple[int, int, int, int, int]
"""GPUs, thousandths of a core, bytes of memory, bytes of ephemeral storage, pods."""

NOTHING: Held = (0, 0, 0, 0, 0)
MOST = 2**62
"""No sum is larger: it must fit the column, whatever a cluster writes."""

_NAMES = (GPU, "cpu", "memory", "ephemeral-storage")
_WHOLE_POD = ("cpu", "memory")
"""Of what Kubernetes lets a pod ask for as a whole, what is counted here."""

_Amounts = tuple[int, ...]
_NONE: _Amounts = (0,) * len(_NAMES)


def held_by(spec: Mapping[str, Any]) -> Held:
    """What a pod with this spec holds."""
    sidecars, costliest = _NONE, _NONE
    for container in spec.get("initContainers") or ():
        asked = _requests(container)
        if container.get("restartPolicy") == "Always":
            asked = sidecars = plus(sidecars, asked)
        else:
            asked = plus(sidecars, asked)
        costliest = tuple(map(max, costliest, asked))
    running = sidecars
    for container in spec.get("containers") or ():
        running = plus(running, _requests(container))
    needed = _whole_pod(spec, tuple(map(max, running, costliest)))
    gpu, cpu, memory, storage = plus(needed, _amounts(spec.get("overhead")))
    return (gpu, cpu, memory, storage, 1)


def plus(one: Sequence[int], other: Sequence[int]) -> _Amounts:
    """The sum, bounded."""
    return tuple(min(MOST, a + b) for a, b in zip(one, other, strict=True))


def _whole_pod(spec: Mapping[str, Any], needed: _Amounts) -> _Amounts:
    """What is asked for the pod as a whole, where it is, in place of what its containers need."""
    asked = (spec.get("resources") or {}).get("requests") or {}
    told = [name in _WHOLE_POD and name in asked for name in _NAMES]
    return tuple(w if said else n for w, n, said in zip(_amounts(asked), needed, told, strict=True))


def _requests(container: Mapping[str, Any]) -> _Amounts:
    return _amounts((container.get("resources") or {}).get("requests"))


def _amounts(written: Mapping[str, Any] | None) -> _Amounts:
    if not written:
        return _NONE
    return tuple(_number(str(written.get(name, "0")), name) for name in _NAMES)


@lru_cache(maxsize=4096)
def _number(text: str, name: str) -> int:
    """A quantity in whole units, rounded up; what a cluster wrote that is none counts as nothing."""
    try:
        found = quantity(text) * (1000 if name == "cpu" else 1)
    except ValueError:
        return 0
    return int(min(max(found, Decimal(0)), Decimal(MOST)).to_integral_value(rounding=ROUND_CEILING))
