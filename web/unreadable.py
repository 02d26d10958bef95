r"""Parts of a request that no code behind the middleware can read: the one place that refuses them.

A cookie in quotes may spell any character (``"\000"``), and a path or a query any byte (``%00``, ``%ff``).
PostgreSQL refuses a NUL in any text, and each such failure would be a 500 of whichever code met it first.
Sessions, authentication and forms read cookies and headers before any view does, so the check precedes all of
them.

A query may contain line breaks, because variables of tasks are sent in it. Django replaces bytes of a header
that are not UTF-8, and each reader of a header refuses what it does not understand. Bodies are checked by
their parsers.
"""

import re
from urllib.parse import unquote_to_bytes

from django.http import HttpRequest

from web.handler import UNREADABLE_CHARSET

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_CONTROL_EXCEPT_TAB = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def is_path_unreadable(request: HttpRequest) -> bool:
    """Whether the path contains a control character: it names nothing."""
    return _CONTROL.search(request.path_info) is not None


def unreadable_part(request: HttpRequest) -> str | None:
    """Name the part of a request that cannot be read, without repeating it; None if all can be."""
    headers = (
        value
        for name, value in request.META.items()
        if name.startswith(("HTTP_", "CONTENT_")) and isinstance(value, str)
    )
    if any(_CONTROL_EXCEPT_TAB.search(value) for value in headers):
        return "A header contains a control character."
    if any(_CONTROL.search(part) for cookie in request.COOKIES.items() for part in cookie):
        return "A cookie contains a control character."
    if UNREADABLE_CHARSET in request.META:
        return "The charset of a request must be UTF-8."
    return _query_fault(request.META.get("QUERY_STRING", ""))


def _query_fault(query: str) -> str | None:
    octets = unquote_to_bytes(query)
    if b"\0" in octets:
        return "The query contains a NUL character."
    try:
        octets.decode()
    except UnicodeDecodeError:
        return "The query contains bytes that are not UTF-8."
    return None
