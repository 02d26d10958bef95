"""A YAML document in a ConfigMap of somebody else's: read within bounds, and no error whatever it is."""

from collections.abc import Mapping
from typing import Any

from pools.documents.yaml_text import TextLimits, parse_document
from scheduling.errors import InvalidSpec
from scheduling.preflight import Reading, Unread

LIMITS = TextLimits(size=2**20, depth=24, aliases=100, entries=5_000, values=20_000, faults=1)
"""A ConfigMap is no larger than 1 MiB."""


def read_document(config_map: Mapping[str, Any], key: str) -> Reading[dict[str, Any]]:
    """The mapping in a ConfigMap's ``data``, or why there is none."""
    data = config_map.get("data")
    text = data.get(key) if isinstance(data, Mapping) else None
    if not isinstance(text, str):
        return Unread(f"the ConfigMap has no {key}")
    try:
        document = parse_document(text, limits=LIMITS).data
    except InvalidSpec:
        return Unread(f"{key} is not a YAML document within the limits")
    return document if isinstance(document, dict) else Unread(f"{key} is not a mapping")
