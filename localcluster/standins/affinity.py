"""Required node affinity of pods, by Kubernetes' own rules."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Match:
    """One expression over labels, or over fields where ``field`` is set (only ``metadata.name`` exists)."""

    key: str
    operator: str
    values: tuple[str, ...]
    field: bool = False

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Evaluate against labels; an operator Kubernetes does not know never holds."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return self._compares(value)
        return False

    def _compares(self, value: str | None) -> bool:
        try:
            left, right = int(value or ""), int(self.values[0])
        except (ValueError, IndexError):
            return False
        return left > right if self.operator == "Gt" else left < right


Terms = tuple[tuple[Match, ...], ...]
"""One term must hold, and in it every expression; no term: nothing is required."""


def required_terms(spec: Mapping[str, Any]) -> Terms:
    """The terms of a pod's required node affinity."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return tuple(_term(term) for term in required.get("nodeSelectorTerms") or ())


def _term(term: Mapping[str, Any]) -> tuple[Match, ...]:
    labels = [_match(expression, field=False) for expression in term.get("matchExpressions") or ()]
    return (*labels, *(_match(expression, field=True) for expression in term.get("matchFields") or ()))


def _match(expression: Mapping[str, Any], *, field: bool) -> Match:
    values = tuple(expression.get("values") or ())
    return Match(expression["key"], expression["operator"], values, field)


def holds_on(terms: Terms, *, name: str, labels: Mapping[str, str]) -> bool:
    """Whether a node of this name, with these labels, is what the terms require."""
    if not terms:
        return True
    fields = {"metadata.name": name}
    return any(bool(term) and all(m.holds(fields if m.field else labels) for m in term) for term in terms)
