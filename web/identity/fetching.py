"""One bounded request to the identity provider: by TLS alone, without redirects, with one deadline.

The time limit of a socket begins anew with each byte, so an answer that arrives byte by byte has no end by
it. A timer therefore shuts the connection down at the deadline, wherever it is: in the handshake, the headers
or the body. Only the name's resolution takes what the system's resolver takes. Rejected: aiohttp, whose total
limit does the same and leaves closing connections to the collector when its loop ends with the request.
"""

import json
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

DEADLINE_SECONDS = 4.0
LARGEST_BYTES = 512 * 1024


class Unreachable(Exception):
    """The identity provider gave no usable answer in time. The message names the address."""


@dataclass(frozen=True, slots=True)
class ProviderAnswer:
    status: int
    document: dict[str, Any]


def fetch(
    address: str,
    *,
    ca_file: str,
    form: str | None = None,
    headers: Mapping[str, str] | None = None,
    seconds: float = DEADLINE_SECONDS,
) -> ProviderAnswer:
    """GET an address, or POST a form to it, and read the JSON object of the answer. Raises Unreachable."""
    if not address.startswith("https://"):
        raise Unreachable(f"{address} is no https address")
    late = threading.Event()
    try:
        with _connection(address, ca_file=ca_file, seconds=seconds, late=late) as connection:
            return _exchange(connection, address, form, dict(headers or {}))
    except (OSError, HTTPException, ValueError, RecursionError) as error:
        if late.is_set() or isinstance(error, TimeoutError):
            raise Unreachable(f"{address} gave no answer within {seconds:g} s") from error
        raise Unreachable(f"{address}: {type(error).__name__}: {error}") from error


@contextmanager
def _connection(
    address: str, *, ca_file: str, seconds: float, late: threading.Event
) -> Iterator[HTTPSConnection]:
    """A connection that is shut down at the deadline, which sets ``late``."""
    parts = urlsplit(address)
    connection = HTTPSConnection(
        str(parts.hostname),
        parts.port,
        timeout=seconds,
        context=ssl.create_default_context(cafile=ca_file or None),
    )
    timer = threading.Timer(seconds, _shut_down, args=(connection, late))
    timer.daemon = True
    timer.start()
    try:
        connection.connect()
        if late.is_set():
            raise TimeoutError
        yield connection
    finally:
        timer.cancel()
        connection.close()


def _shut_down(connection: HTTPSConnection, late: threading.Event) -> None:
    late.set()
    if (open_socket := connection.sock) is not None:
        with suppress(OSError):  # past the TLS layer, which another thread is reading
            socket.socket.shutdown(open_socket, socket.SHUT_RDWR)


def _exchange(
    connection: HTTPSConnection, address: str, form: str | None, headers: dict[str, str]
) -> ProviderAnswer:
    if form is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    headers |= {"Accept": "application/json", "Connection": "close"}
    parts = urlsplit(address)
    target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    connection.request("GET" if form is None else "POST", target, body=form, headers=headers)
    with connection.getresponse() as response:
        body = response.read(LARGEST_BYTES + 1)
        if len(body) > LARGEST_BYTES:
            raise ValueError(f"the answer has more than {LARGEST_BYTES} bytes")
        document = json.loads(body)
    if not isinstance(document, dict):
        raise ValueError("the answer is no JSON object")  # noqa: TRY004 -- of the answer, not of an argument
    return ProviderAnswer(response.status, document)
