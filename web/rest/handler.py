"""The WSGI handler of the service: Django's, which meets no charset but UTF-8.

Django decodes the query by the charset of the body while it makes the request, before any middleware and
outside of what turns exceptions into answers. A codec that is no charset (``base64``), or more parameters
than are accepted, would end there as a bare 500. So the charset is taken off here, and one that is not UTF-8
leaves a mark by which the middleware refuses the request.
"""

import codecs
import re
from typing import Any

from django.core.handlers.wsgi import WSGIHandler
from django.utils.http import parse_header_parameters

UNREADABLE_CHARSET = "osmo.unreadable_charset"
"""Key of the mark in a request's ``META``."""

_CHARSET = re.compile(r""";\s*charset\s*=\s*("[^"]*"|[^;"]*)""", re.IGNORECASE)
_READ = frozenset({"utf-8", "ascii"})


class Handler(WSGIHandler):
    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        content_type = environ.get("CONTENT_TYPE", "")
        if "charset" in content_type.lower():
            environ = {**environ, **_without_charset(content_type)}
        return super().__call__(environ, start_response)


def _without_charset(content_type: str) -> dict[str, Any]:
    charsets = [match[1].strip().strip('"') for match in _CHARSET.finditer(content_type)]
    remainder = _CHARSET.sub("", content_type)
    if all(map(_is_read, charsets)) and not _has_charset(remainder):
        return {"CONTENT_TYPE": remainder}
    return {"CONTENT_TYPE": "", UNREADABLE_CHARSET: True}


def _has_charset(content_type: str) -> bool:
    """Whether Django would find a charset in it, in a form that is not known here."""
    try:
        return "charset" in parse_header_parameters(content_type)[1]
    except ValueError:
        return True


def _is_read(charset: str) -> bool:
    try:
        return codecs.lookup(charset).name in _READ
    except (LookupError, ValueError):
        return False
