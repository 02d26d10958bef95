"""Dynamic resource allocation, as far as claims for node-local devices go.

A DeviceClass selects devices by CEL. Only conjunctions of equalities on ``device.driver`` and
``device.attributes[...]`` are understood; any other expression selects nothing, so a claim that needs
more stays pending instead of being granted what it did not ask for.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from localcluster.standins.kai.values import Claim, ClaimRequest, Device

DeviceKey = tuple[str, str, str]

_DRIVER = re.compile(r"""^device\.driver\s*==\s*(['"])(?P<value>[^'"]*)\1$""")
_ATTRIBUTE = re.compile(
    r"""^device\.attributes\[(['"])(?P<domain>[^'"]+)\1\]\.(?P<name>\w+)\s*==\s*"""
    r"""(?:(['"])(?P<text>[^'"]*)\4|(?P<number>-?\d+)|(?P<truth>true|false))$"""
)


@lru_cache(maxsize=256)
def _terms(expression: str) -> tuple[tuple[str, Any], ...] | None:
    """Split into (attribute, value) pairs, ``driver`` first among them; None if not understood."""
    terms: list[tuple[str, Any]] = []
    for part in expression.split("&&"):
        text = part.strip()
        if match := _DRIVER.match(text):
            terms.append(("driver", match["value"]))
        elif match := _ATTRIBUTE.match(text):
            value: Any = match["text"]
            if match["number"] is not None:
                value = int(match["number"])
            elif match["truth"] is not None:
                value = match["truth"] == "true"
            terms.append((f"{match['domain']}/{match['name']}", value))
        else:
            return None
    return tuple(terms)


def selects(expression: str, device: Device) -> bool:
    """Progress whether a CEL selector holds for ``device``."""
    terms = _terms(expression)
    if terms is None:
        return False
    return all(
        device.driver == want if name == "driver" else _attribute(device, name) == want
        for name, want in terms
    )


def _attribute(device: Device, qualified: str) -> Any:
    """Look up ``domain/name``; an unqualified attribute belongs to its driver's domain."""
    domain, _, name = qualified.partition("/")
    if qualified in device.attributes:
        return device.attributes[qualified]
    return device.attributes.get(name) if domain == device.driver else None


def matching(
    request: ClaimRequest, devices: Iterable[Device], classes: Mapping[str, tuple[str, ...]]
) -> list[Device]:
    """The devices that satisfy one request of a claim; none if its DeviceClass does not exist."""
    if request.device_class not in classes:
        return []
    expressions = (*classes[request.device_class], *request.selectors)
    return [device for device in devices if all(selects(expression, device) for expression in expressions)]


def choose(
    claim: Claim,
    *,
    devices: Iterable[Device],
    classes: Mapping[str, tuple[str, ...]],
    allocated: set[DeviceKey],
) -> list[tuple[str, DeviceKey]] | None:
    """Pick devices of one node for every request of ``claim``, or None if they do not suffice."""
    devices = tuple(devices)
    picked: list[tuple[str, DeviceKey]] = []
    for request in claim.requests:
        fitting = matching(request, devices, classes)
        free = [d for d in fitting if d.key not in allocated and all(d.key != key for _, key in picked)]
        count = len(fitting) if request.every else request.count
        if not count or len(free) < count:
            return None
        picked.extend((request.name, device.key) for device in free[:count])
    return picked
