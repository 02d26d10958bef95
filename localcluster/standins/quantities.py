"""Kubernetes' quantities, and what a pod asks for, by Kubernetes' own rules.

Amounts are integers in thousandths of a unit (cpu 1500m is 1500, one GPU is 1000), so that sums are exact.
"""

import re
from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Any

Amounts = Mapping[str, int]
UNIT = 1000
"""How many parts of ``Amounts`` make one core, one byte, one pod, one device."""

_SUFFIXES = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
}
_DECIMAL = ("", "k", "M", "G", "T", "P", "E")
_QUANTITY = re.compile(r"^([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([a-zA-Z]*)$")


def amount(quantity: Any) -> int:
    """A Kubernetes quantity in thousandths, rounded up."""
    match = _QUANTITY.match(str(quantity))
    if match is None or match[2] not in _SUFFIXES:
        raise ValueError(f"{quantity!r} is no Kubernetes quantity")
    exact = Decimal(match[1]) * _SUFFIXES[match[2]] * UNIT
    return int(exact.to_integral_value(rounding=ROUND_CEILING))


def shortest(quantity: Any) -> str:
    """A decimal quantity as Kubernetes' Go types write it; others as they are."""
    text = str(quantity)
    match = _QUANTITY.match(text)
    if match is None or match[2] not in _DECIMAL or "e" in match[1].lower() or "." in match[1]:
        return text
    number, place = int(match[1]), _DECIMAL.index(match[2])
    while number and not number % 1000 and place + 1 < len(_DECIMAL):
        number, place = number // 1000, place + 1
    return f"{number}{_DECIMAL[place]}" if number else "0"


def amounts(body: Mapping[str, Any] | None) -> dict[str, int]:
    """Quantities by the names of their resources."""
    return {name: amount(quantity) for name, quantity in (body or {}).items()}


def add(first: Amounts, second: Amounts) -> dict[str, int]:
    return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}


def pod_requests(
    spec: Mapping[str, Any], *, of_container: Callable[[Mapping[str, Any]], Amounts]
) -> dict[str, int]:
    """Containers and sidecars together, at least the largest init container, plus overhead."""
    total: dict[str, int] = {}
    for container in spec.get("containers") or ():
        total = add(total, of_container(container))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            sidecars = add(sidecars, of_container(container))
            continue
        while_it_runs = add(sidecars, of_container(container))
        peak |= {name: max(peak.get(name, 0), most) for name, most in while_it_runs.items()}
    total = add(total, sidecars)
    total |= {name: max(total.get(name, 0), most) for name, most in peak.items()}
    return add(total, amounts(spec.get("overhead")))
