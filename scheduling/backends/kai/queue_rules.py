"""Which of KAI's queues admit a gang.

A gang starts only if, in its own queue and in every one above, the amounts in use and its own request stay
within the *limit*; and, for a gang that nothing may preempt, the amounts in use by such gangs stay within the
*quota*. So a gang that may be preempted takes free room beyond the quota
(``plugins/proportion/capacity_policy``, v0.13 and v0.17). A bound that a Queue leaves out is 0, which allows
nothing. Fair share decides only the order of queues and the work that is reclaimed.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Literal

from scheduling.backends.priorities import PRIORITIES
from scheduling.kubernetes_syntax import GPU
from scheduling.queues.queue_state import (
    QUEUE_RESOURCES,
    UNLIMITED,
    QueueAmounts,
    QueueBound,
    QueueShortage,
    QueueState,
)

PREEMPTIBLE_BELOW = 100
"""The value of a priority class below which KAI may preempt."""

_UNITS: Mapping[str, float] = {"gpu": 1, "cpu": 1, "memory": 1_000_000}
"""GPUs, thousandths of a core and megabytes, as a Queue's spec counts them."""


def is_preemptible(priority: str) -> bool:
    return PRIORITIES[priority] < PREEMPTIBLE_BELOW


def configured(manifest: Mapping[str, Any]) -> QueueState:
    """A Queue as it is written, without a status."""
    spec = manifest["spec"]
    return QueueState(
        name=manifest["metadata"]["name"],
        parent=spec.get("parentQueue") or "",
        bounds=_bounds(spec),
        preempt_min_runtime=_seconds(str(spec.get("preemptMinRuntime") or "")),
    )


_DURATION = re.compile(r"(?:\d{1,12}(?:\.\d{1,9})?(?:h|m|s|ms|us|µs|ns))+", re.ASCII)
_PART = re.compile(r"([\d.]+)([a-zµ]+)")
_SECONDS: Mapping[str, float] = {"h": 3600, "m": 60, "s": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def _seconds(duration: str) -> float | None:
    """A duration as Go writes it (``1h30m``); None for anything else."""
    if not _DURATION.fullmatch(duration):
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(duration))


_STATUS_NAMES: Mapping[str, str] = {"gpu": GPU, "cpu": "cpu", "memory": "memory"}
"""A status counts as pods do, whatever its description says: GPUs, cores and bytes, as quantities."""
_BEYOND_COUNTING = 2**63 - 1  # to which ``quantity`` lowers whatever is larger


def read_queue(obj: Mapping[str, Any], *, quantity: Callable[[str], Decimal]) -> QueueState:
    """A Queue with what KAI's controllers count below it; no quantity, or one beyond all counting, is 0."""
    status = obj.get("status") or {}
    return replace(
        configured({"spec": {}, **obj}),
        used=_counted(status.get("allocated") or {}, quantity),
        fixed=_counted(status.get("allocatedNonPreemptible") or {}, quantity),
    )


def _counted(amounts: Mapping[str, Any], quantity: Callable[[str], Decimal]) -> dict[str, float]:
    counted = {}
    for name, written in _STATUS_NAMES.items():
        try:
            amount = quantity(str(amounts.get(written, "0")))
        except ValueError:
            amount = Decimal(0)
        countable = 0 < amount < _BEYOND_COUNTING
        counted[name] = float(amount) * (1000 if name == "cpu" else 1) if countable else 0.0
    return counted


def _bounds(spec: Mapping[str, Any]) -> dict[str, QueueBound]:
    """The bounds that a Queue's spec sets."""
    resources = spec.get("resources") or {}
    return {
        name: QueueBound(_amount(written, "quota", unit), _amount(written, "limit", unit))
        for name, unit in _UNITS.items()
        for written in (resources.get(name) or {},)
    }


def _amount(written: Mapping[str, Any], field: str, unit: float) -> float:
    amount = float(written.get(field) or 0) * unit
    return amount if math.isfinite(amount) and amount >= 0 else UNLIMITED


def shortages(
    queues: Sequence[QueueState], requested: QueueAmounts, *, priority: str
) -> tuple[QueueShortage, ...]:
    """The bounds that a gang exceeds, limits first, from its own queue up."""
    limits = _exceeded(queues, requested, "limit")
    quotas = () if is_preemptible(priority) else _exceeded(queues, requested, "quota")
    return (*limits, *quotas)


def _exceeded(
    queues: Sequence[QueueState], requested: QueueAmounts, kind: Literal["limit", "quota"]
) -> Iterator[QueueShortage]:
    for queue in queues:
        used_by_resource = queue.used if kind == "limit" else queue.fixed
        for resource in QUEUE_RESOURCES:
            amount, used = requested.get(resource, 0), used_by_resource.get(resource, 0)
            bound = queue.bound(resource)
            most = bound.limit if kind == "limit" else bound.quota
            if amount and most >= 0 and used + amount > most:
                yield QueueShortage(
                    queue=queue.name, resource=resource, bound=kind, amount=most, used=used, requested=amount
                )
