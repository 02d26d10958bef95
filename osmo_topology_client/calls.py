"""What is sent, as values: one request, and a workflow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import quote

from osmo_topology_client.sendable import check_header, check_texts

READ = 90.0

Param: TypeAlias = str | int | list[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request. ``read`` is the longest silence within an answer in seconds, None for any.

    Raises Misused for a text that no request can hold.
    """

    verb: str = "GET"
    path: str
    params: Mapping[str, Param] = field(default_factory=dict)
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    read: float | None = READ

    def __post_init__(self) -> None:
        check_texts(self.params)
        check_texts(self.body)
        for name, value in self.headers.items():
            check_header(value, source=f"The header {name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A workflow as YAML, or a template with what fills it in.

    ``variables`` and ``strings`` are ``name=value``; of the first, numbers become numbers. Without a ``pool``
    the caller's default pool takes it, else the one that the document names; ``any``, or names with commas
    between them, let the service choose the best.
    """

    text: str
    pool: str = ""
    variables: Sequence[str] = ()
    strings: Sequence[str] = ()
    environment: Sequence[str] = ()
    labels: Sequence[str] = ()
    priority: str | None = None


def address(*parts: str) -> str:
    """An address of the service; parts are quoted, so a name cannot lead elsewhere. Raises Misused."""
    check_texts(parts)
    return "/api/" + "/".join(quote(part, safe="") for part in parts)
