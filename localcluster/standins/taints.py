"""Taints of nodes, and the tolerations of pods, by Kubernetes' own rules."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """``key`` is empty for all keys, ``effect`` for all effects."""

    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, taint: Taint) -> bool:
        """Whether a pod with it may stand on a node with the taint."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.operator == "Exists":
            return self.key in ("", taint.key)
        return self.key == taint.key and self.value == taint.value


def taints(body: Iterable[Mapping[str, Any]] | None) -> tuple[Taint, ...]:
    return tuple(Taint(taint["key"], taint.get("value", ""), taint["effect"]) for taint in body or ())


def tolerations(body: Iterable[Mapping[str, Any]] | None) -> tuple[Toleration, ...]:
    empty = {"key": "", "operator": "Equal", "value": "", "effect": ""}
    return tuple(
        Toleration(**{name: toleration.get(name, default) for name, default in empty.items()})
        for toleration in body or ()
    )
