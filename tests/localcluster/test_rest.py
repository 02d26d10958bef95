"""The client of tests and demo: it sends nothing on a connection that the server may be about to close."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from localcluster import rest
from localcluster.rest import Rest


class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.clients.append(self.client_address)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        server.clients, server.daemon_threads = [], True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize(("seconds", "connections"), [(600.0, 1), (0.0, 3)])
def test_a_connection_is_used_again_only_soon(server, monkeypatch, seconds, connections):
    monkeypatch.setattr(rest, "KEPT_SECONDS", seconds)
    client = Rest(api_url=f"http://127.0.0.1:{server.server_port}", token="t")
    for _ in range(3):
        client.get("/")
    assert len(set(server.clients)) == connections
