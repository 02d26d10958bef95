"""Files that a command sends, or reads a document from."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from osmo_topology_client.errors import Misused


def text_of(file: str) -> str:
    """The text of a file; ``-`` is standard input. Raises Misused."""
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return content.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise Misused(f"{file} cannot be read: {reason}") from error


def document_of(file: str) -> dict[str, Any]:
    """The one document of a YAML or JSON file. Raises Misused."""
    import yaml  # noqa: PLC0415 -- for these files alone

    try:
        content = yaml.safe_load(text_of(file))
    except yaml.YAMLError as error:
        raise Misused(f"{file} is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, Mapping):
        raise Misused(f"{file} is no document of fields with values.")
    return dict(content)


def pairs_of(texts: list[str], *, option: str) -> list[dict[str, str]]:
    """Texts such as ``zone=a,rack=r1`` as objects. Raises Misused."""
    return [_pairs(text, option=option) for text in texts]


def _pairs(text: str, *, option: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name and equals and value for name, equals, value in pairs):
        raise Misused(f'{option} takes name=value, such as zone=a,rack=r1, and not "{text}".')
    return {name: value for name, _, value in pairs}
