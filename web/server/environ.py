"""A request as the event loop read it, in the form that Django's WSGI application takes.

The headers that name a user are checked here, while each is still seen as it was sent: WSGI joins repeated
ones with a comma and reads ``_`` like ``-``. So a repeated one is made invalid (``gateway.once``), and names
with ``_`` are left out, whoever sends them.
"""

import io
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

from web.access import gateway

Scope = Mapping[str, Any]

_WITHOUT_PREFIX = frozenset({"CONTENT_LENGTH", "CONTENT_TYPE"})
_OF_THE_CONNECTION = frozenset({"HTTP_TRANSFER_ENCODING", "HTTP_CONNECTION", "HTTP_EXPECT"})


def environ_of(scope: Scope, body: bytes) -> dict[str, Any]:
    """The WSGI environment of a request with its body, or with as much as is read of a longer one."""
    client, server = scope.get("client") or ("", 0), scope.get("server") or ("", 0)
    environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(_path(scope["raw_path"])).decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "SERVER_NAME": str(server[0]),
        "SERVER_PORT": str(server[1]),
        "REMOTE_ADDR": str(client[0]),
        "REMOTE_PORT": str(client[1]),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    environ |= _headers(scope)
    if body:
        environ.setdefault("CONTENT_LENGTH", str(len(body)))  # it came in chunks
    return environ


def _headers(scope: Scope) -> dict[str, str]:
    headers: dict[str, str] = {}
    sent = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
    for name, value in gateway.once(sent):
        if "_" in name:
            continue
        key = name.upper().replace("-", "_")
        key = key if key in _WITHOUT_PREFIX else f"HTTP_{key}"
        if key in headers:
            value = f"{headers[key]}{'; ' if key == 'HTTP_COOKIE' else ','}{value}"  # noqa: PLW2901 -- joined
        if key not in _OF_THE_CONNECTION:
            headers[key] = value
    return headers


def _path(target: bytes) -> bytes:
    """The path of a request's target, which is a whole URL where the client takes us for a proxy.

    Of that URL nothing else is read: its host may be anything, and the Host header has the one that counts.
    """
    if target.startswith(b"/") or b"://" not in target:
        return target
    _, slash, path = target.partition(b"://")[2].partition(b"?")[0].partition(b"/")
    return slash + path or b"/"
