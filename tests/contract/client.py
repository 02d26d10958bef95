"""What OSMO's client makes of an answer: what it prints and with which code it exits.

The client (6.4.0) takes exactly 200 with JSON for success. Anything else that succeeds is a line about the
status; an error is its ``message``, and the exit code hangs on ``error_code`` and on the status. Times it
reads bear no zone. Written from the contract's description, to judge our answers as the client would.
"""

import json
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

SERVER_FAULT, TRY_LATER = 10, 75
_EXIT = {"USAGE": 1, "RESOURCE": 1, "CREDENTIAL": 2, "USER": 2, "SUBMISSION": 2, "DATABASE": 2}
_PREFIXED = {"USAGE", "RESOURCE"}
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,6})?", re.ASCII)
_ZONED = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the command ends: ``value`` is what it goes on with if ``exit`` is 0."""

    exit: int
    printed: str = ""
    value: Any = None


def handle_response(status: int, body: bytes, *, streamed: bool = False, submits: bool = False) -> Outcome:
    """Judge an answer; ``streamed`` text is read line by line, ``submits`` is for ``workflow submit``."""
    text = body.decode("utf-8")
    if status == 200:
        return Outcome(0, text, text.splitlines()) if streamed else _json(text)
    if 200 < status < 300:
        return (
            _json(text) if not text else Outcome(SERVER_FAULT, f"Server responded with status code {status}")
        )
    return _failure(status, text, submits=submits)


def _json(text: str) -> Outcome:
    try:
        return Outcome(0, "", json.loads(text))
    except ValueError as error:
        return Outcome(SERVER_FAULT, f"Invalid JSON: {error}")


def _failure(status: int, text: str, *, submits: bool) -> Outcome:
    try:
        content = json.loads(text)
        message, code = content["message"], content.get("error_code")
    except (ValueError, KeyError, TypeError):
        return Outcome(SERVER_FAULT if status >= 500 else 1, text)
    if status >= 500:
        return Outcome(SERVER_FAULT, message)
    if status == 429:
        return Outcome(TRY_LATER, message)
    if submits and code == "CREDENTIAL":
        return Outcome(1, message)
    if submits and code in _PREFIXED and content.get("workflow_id"):
        message = f"Workflow {content['workflow_id']} submit failed: {message}"
    return Outcome(_EXIT.get(code, 2), message)


def read_time(text: str) -> datetime:
    """A time as the client reads it. Raises ValueError for a zone, ``Z`` included."""
    if not _TIME.fullmatch(text):
        raise ValueError(f"Invalid time format: {text}")
    return datetime.fromisoformat(text)


def zoned_times(value: Any) -> list[str]:
    """Every text in a reply that is a time with a zone: the client would fail on it."""
    found, rest = [], [value]
    while rest:
        match rest.pop():
            case dict() as mapping:
                rest += mapping.values()
            case list() as entries:
                rest += entries
            case str() as text if _ZONED.fullmatch(text):
                found.append(text)
    return found
