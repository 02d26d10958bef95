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
from urllib.parse import unquote_plus, unquote_to_bytes

from django.http import HttpRequest

from scheduling.errors import Fault
from web.rest.handler import UNREADABLE_CHARSET

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_CONTROL_EXCEPT_TAB = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def is_path_unreadable(request: HttpRequest) -> bool:
    """Whether the path contains a control character: it names nothing."""
    return _CONTROL.search(request.path_info) is not None


def unreadable_part(request: HttpRequest) -> Fault | None:
    """The part of a request that cannot be read, without its text; None if all can be.

    Pages refuse such a query themselves, with a page.
    """
    headers = (
        value
        for name, value in request.META.items()
        if name.startswith(("HTTP_", "CONTENT_")) and isinstance(value, str)
    )
    if any(_CONTROL_EXCEPT_TAB.search(value) for value in headers):
        return Fault((), "unreadable", "A header contains a control character.")
    if any(_CONTROL.search(part) for cookie in request.COOKIES.items() for part in cookie):
        return Fault((), "unreadable", "A cookie contains a control character.")
    if UNREADABLE_CHARSET in request.META:
        return Fault((), "unreadable", "The charset of a request must be UTF-8.")
    if request.path_info.startswith("/ui/"):
        return None
    parameters = request.META.get("QUERY_STRING", "").split("&")
    return next((fault for text in parameters if (fault := _parameter_fault(text))), None)


def _parameter_fault(text: str) -> Fault | None:
    name = text.partition("=")[0]
    path = () if _octets_fault(unquote_to_bytes(name)) else (unquote_plus(name)[:80],)
    message = _octets_fault(unquote_to_bytes(text))
    return Fault(path, "unreadable", message) if message else None


def _octets_fault(octets: bytes) -> str | None:
    if b"\0" in octets:
        return "The query contains a NUL character."
    try:
        octets.decode()
    except UnicodeDecodeError:
        return "The query contains bytes that are not UTF-8."
    return None
