"""The parser of request bodies: JSON, read strictly."""

import json
import re
from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

MOST_VALUES = 100_000
"""So many are read in a few hundredths of a second; a workflow is one text."""

_SUSPECT = re.compile(rb"\\u(0000|[dD][89a-fA-F])")


class StrictJSONParser(JSONParser):
    """JSON whatever the content type says, within the body limit.

    Refused are NaN, NUL characters and half surrogate pairs, which no column or reply can hold. OSMO's
    client sends ``Content-Type: application/json`` even without a body.
    """

    media_type = "*/*"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,  # noqa: ARG002 -- DRF's signature
        parser_context: Mapping[str, Any] | None = None,  # noqa: ARG002 -- DRF's signature
    ) -> Any:
        body = stream.read(settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1)
        if len(body) > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
            raise RequestDataTooBig(f"The body is over {settings.DATA_UPLOAD_MAX_MEMORY_SIZE} bytes.")
        if not body.strip():
            return {}
        if _has_over(MOST_VALUES, body):
            raise ParseError(f"The body has over {MOST_VALUES} values.")
        try:
            value = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise ParseError(f"The body is not valid JSON: {error}") from error
        if _SUSPECT.search(body) and (fault := _unwritable(value)):
            raise ParseError(f"The body contains {fault}, which no field accepts.")
        return value


def _has_over(most: int, body: bytes) -> bool:
    """Whether a JSON text has more values than that; of no use for a text that is no JSON.

    ``json`` holds the interpreter's lock for its whole length: a second and 250 MiB for 8 MiB of ``[]``.
    """
    if _marks(body) <= most:
        return False
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")  # strings end at the quotes that are left
    if plain.count(b'"') > 2 * most:
        return True
    return sum(map(_marks, plain.split(b'"')[::2])) > most


def _marks(text: bytes) -> int:
    """The marks that begin or separate values: as many as there are values, at least half as many."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _unwritable(value: Any) -> str | None:
    """Name what no database column and no reply can hold, if any text in the value has it."""
    values = [value]
    while values:
        match values.pop():
            case str() as text if "\0" in text:
                return "a NUL character"
            case str() as text if any("\ud800" <= character <= "\udfff" for character in text):
                return "half a surrogate pair"
            case dict() as mapping:
                values += [*mapping.keys(), *mapping.values()]
            case list() as entries:
                values += entries
    return None
