"""The parser of request bodies: JSON, read strictly."""

import json
import re
from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

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
        try:
            value = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise ParseError(f"The body is not valid JSON: {error}") from error
        if _SUSPECT.search(body) and (fault := _unwritable(value)):
            raise ParseError(f"The body contains {fault}, which no field accepts.")
        return value


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
