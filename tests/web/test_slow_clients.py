"""Clients that send half a request, or never read an answer, cost others nothing."""

import json
from contextlib import ExitStack

from tests.web.wire import HALF_A_BODY, HALF_A_HEADER

MANY = 100


def test_half_sent_requests_hold_nobody_up(web_server, token):
    with ExitStack() as stack:
        for _ in range(MANY):
            stack.enter_context(web_server.connect(HALF_A_HEADER))
            stack.enter_context(web_server.connect(HALF_A_BODY))
        assert web_server.send(path="/livez")[0] == 200
        status, profile = web_server.json(token)
        assert (status, profile["profile"]["username"]) == (200, "ann")


def test_a_request_that_comes_in_pieces_is_answered(web_server, token):
    body = json.dumps({"pool": None}).encode()
    head = (
        f"POST /api/profile/settings HTTP/1.1\r\nHost: 127.0.0.1\r\n{token}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    ).encode()
    with web_server.connect() as client:
        for byte in head + body:
            client.sendall(bytes([byte]))
        assert client.recv(100).startswith(b"HTTP/1.1 200")
