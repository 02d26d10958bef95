r"""What can be sent: arguments, variables and files as text that HTTP can hold.

An argument or a variable may be any bytes; Python keeps those that are not UTF-8 as halves of surrogate
pairs, which no request can hold. A header holds one line, in latin-1. Either is refused before a request is
made of it, since the libraries below raise exceptions of their own, each in another place.
"""

from collections.abc import Mapping
from typing import Any

from osmo_topology_client.errors import Misused


def check_texts(value: Any) -> None:
    """Check all texts of a path, a query or a JSON body. Raises Misused, showing the text."""
    if isinstance(value, str):
        if not _is_utf_8(value):
            raise Misused(f'"{_as_typed(value)}" cannot be sent: it is not UTF-8.')
    elif isinstance(value, Mapping):
        for name, part in value.items():
            check_texts(name)
            check_texts(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            check_texts(part)


def check_header(text: str, *, source: str) -> None:
    """Check what a header is made of; ``source`` names it, since it may be secret. Raises Misused."""
    if reason := _header_fault(text):
        raise Misused(f"{source} cannot be sent: {reason}.")


def _header_fault(text: str) -> str | None:
    if not _is_utf_8(text):
        return "it is not UTF-8"
    if "\n" in text or "\r" in text:
        return "it contains a line break"
    if any(character < " " or character == "\x7f" for character in text):
        return "it contains a control character"
    if beyond := next((character for character in text if character > "\xff"), None):
        return f'it contains "{beyond}", which a header cannot hold'
    return None


def _is_utf_8(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _as_typed(text: str) -> str:
    r"""The text with its bytes as a shell takes them: ``a\xff``."""
    return "".join(
        f"\\x{ord(character) - 0xDC00:02x}" if "\udc80" <= character <= "\udcff" else character
        for character in text
    )
