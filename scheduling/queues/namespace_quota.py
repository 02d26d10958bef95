"""Quotas of a namespace: what an API server lets its pods ask for, all together.

It counts pod by pod and knows of no gangs. Only quotas on all pods are read here: whether one with another
scope counts a pod is left to the API server. Source: Kubernetes 1.37
``pkg/quota/v1/evaluator/core/pods.go``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from scheduling.kubernetes_syntax import GPU
from scheduling.queues.queue_state import QueueShortage

QuotaAmounts = Mapping[str, float]
"""GPUs, thousandths of a core, bytes and pods, by the names of ``QUOTA_RESOURCES``."""

QUOTA_RESOURCES = ("gpu", "cpu", "memory", "storage", "pods")

_WRITTEN = {
    f"requests.{GPU}": ("gpu", 1.0),
    "requests.cpu": ("cpu", 1000.0),
    "cpu": ("cpu", 1000.0),
    "requests.memory": ("memory", 1.0),
    "memory": ("memory", 1.0),
    "requests.ephemeral-storage": ("storage", 1.0),
    "ephemeral-storage": ("storage", 1.0),
    "pods": ("pods", 1.0),
    "count/pods": ("pods", 1.0),
}
_OF_EVERY_POD = {"NotTerminating", "NotBestEffort"}
"""Scopes that every pod of the service has."""


@dataclass(frozen=True, slots=True)
class NamespaceQuota:
    """One quota; ``hard`` has only resources of ``QUOTA_RESOURCES``, ``used`` has the same."""

    name: str
    hard: QuotaAmounts
    used: QuotaAmounts

    def shortages(self, requested: QuotaAmounts) -> list[QueueShortage]:
        """The resources of which this leaves less than is requested."""
        return [
            QueueShortage(
                queue=self.name,
                resource=resource,
                bound="namespace",
                amount=hard,
                used=self.used.get(resource, 0.0),
                requested=requested[resource],
            )
            for resource, hard in self.hard.items()
            if requested.get(resource) and self.used.get(resource, 0.0) + requested[resource] > hard
        ]

    def after(self, requested: QuotaAmounts) -> "NamespaceQuota":
        """The quota once so much more is used."""
        used = {name: self.used.get(name, 0.0) + requested.get(name, 0.0) for name in self.hard}
        return replace(self, used=used)

    def to_json(self) -> dict[str, Any]:
        """``from_json`` is its inverse."""
        return {"name": self.name, "hard": dict(self.hard), "used": dict(self.used)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "NamespaceQuota":
        return cls(value["name"], value["hard"], value["used"])


def quota_of(obj: Mapping[str, Any], *, quantity: Callable[[str], Decimal]) -> NamespaceQuota | None:
    """The quota of a ResourceQuota object; None for one of other resources, or of some pods only."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if spec.get("scopeSelector") or not set(spec.get("scopes") or ()) <= _OF_EVERY_POD:
        return None
    hard, used = (_amounts(status.get(name), quantity) for name in ("hard", "used"))
    return NamespaceQuota(str(obj["metadata"]["name"]), hard, used) if hard else None


def shortages(quotas: Sequence[NamespaceQuota], requested: QuotaAmounts) -> tuple[QueueShortage, ...]:
    """What a gang lacks in all of them; one that it can never get first."""
    lacking = [shortage for quota in quotas for shortage in quota.shortages(requested)]
    return tuple(sorted(lacking, key=lambda shortage: not shortage.is_lasting))


def _amounts(written: Any, quantity: Callable[[str], Decimal]) -> dict[str, float]:
    """The counted resources; of two names of one resource the one that allows less."""
    amounts: dict[str, float] = {}
    for name, text in (written or {}).items():
        if name not in _WRITTEN:
            continue
        resource, factor = _WRITTEN[name]
        try:
            amount = float(quantity(str(text))) * factor
        except ValueError:
            continue
        amounts[resource] = min(amount, amounts.get(resource, amount))
    return amounts
