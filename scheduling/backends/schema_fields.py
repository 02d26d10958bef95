"""Fields of a schema that a cluster serves."""

from collections.abc import Mapping
from typing import Any


def at(value: Any, *keys: str) -> Mapping[str, Any]:
    """Follow keys through mappings; empty if one is missing."""
    for key in keys:
        value = value.get(key, {}) if isinstance(value, Mapping) else {}
    return value if isinstance(value, Mapping) else {}
