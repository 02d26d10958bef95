"""Requests as bytes on a connection."""

import http.client
from contextlib import suppress

HOST = b"Host: 127.0.0.1"
HALF_A_HEADER = b"GET /api/pool HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Sl"
HALF_A_BODY = (
    b"POST /api/pool/p/workflow HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
)


def status_of(server, sent):
    """The status of the first answer; whoever refuses may hang up before everything was sent."""
    with server.connect() as client:
        with suppress(OSError):
            client.sendall(sent)
        answer = http.client.HTTPResponse(client)
        answer.begin()
        return answer.status


def request(method, target, *lines, body=b"", host=HOST):
    head = [b"%s %s HTTP/1.1" % (method.encode(), target), host, b"Connection: close", *lines, b"", b""]
    return b"\r\n".join(head) + body
