"""Read the contract: one file for each command, in it cases, in each the requests in order.

``as`` names who sends it (``ann``, a user, unless said); ``login: token`` sends a bearer instead of the
development header. ``${name}`` in a request stands for what an earlier reply was captured as. In a query a
boolean goes as Python's text, a list as repeated keys, and null or an empty list not at all, as the client's
library does it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import yaml

FOLDER = Path(__file__).parent / "commands"
HEADERS = {"x-osmo-client-version": "6.4.0", "User-Agent": "osmo-cli/6.4.0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A request, and what is expected of its answer."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str | None] = field(default_factory=dict)
    body: Any = None
    status: int = 200
    reply: Any = "any"
    lines: str | None = None
    answer_headers: Mapping[str, str] = field(default_factory=dict)
    exit: int = 0
    prints: str = ""
    capture: Mapping[str, str] = field(default_factory=dict)
    submits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    command: str
    about: str
    file: str
    steps: tuple[Step, ...]
    user: str
    login: str
    given: tuple[str, ...]
    waits_for: str


def cases() -> Iterator[Case]:
    for path in sorted(FOLDER.glob("*.yaml")):
        document = yaml.safe_load(path.read_text())
        for entry in document["cases"]:
            yield Case(
                command=document["command"],
                about=entry["about"],
                file=path.stem,
                steps=tuple(Step(**step) for step in entry["steps"]),
                user=entry.get("as", document.get("as", "ann")),
                login=entry.get("login", "dev"),
                given=tuple(entry.get("given", document.get("given", ()))),
                waits_for=entry.get("waits_for", document.get("waits_for", "")),
            )


def address(step: Step, known: Mapping[str, str]) -> str:
    """Path and query as they stand on the wire."""
    query = {name: _written(value) for name, value in filled(dict(step.query), known).items()}
    text = urlencode({name: value for name, value in query.items() if value not in (None, [])}, doseq=True)
    path = str(filled(step.path, known))
    return f"{path}?{text}" if text else path


def _written(value: Any) -> Any:
    """Python's text, as the client's library writes it; what is None stays."""
    if isinstance(value, list):
        return [str(entry) for entry in value]
    return None if value is None else str(value)


def filled(value: Any, known: Mapping[str, str]) -> Any:
    """Put what was captured where it is named."""
    match value:
        case str():
            return re.sub(r"\$\{(\w+)\}", lambda found: known[found[1]], value)
        case dict():
            return {key: filled(inner, known) for key, inner in value.items()}
        case list():
            return [filled(inner, known) for inner in value]
    return value


def found(value: Any, path: str) -> Any:
    """What stands at a place like ``groups.0.name`` in a reply."""
    for step in path.split("."):
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value
