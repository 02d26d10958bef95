"""A request to the identity provider is bounded, whatever answers there."""

import socket
import ssl
import threading
from contextlib import suppress

import pytest

from tests.identity.certificates import write_certificates
from web.identity.fetching import LARGEST_BYTES, ProviderAnswer, Unreachable, fetch

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_certificates(tmp_path_factory.mktemp("certificates"))


class Server:
    """Answers each connection with what a test writes, behind TLS."""

    def __init__(self, files, write):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files[1], files[2])
        self._context, self._write, self.ended = context, write, threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while not self.ended.is_set():
            with suppress(OSError):
                connection, _ = self._listener.accept()
                with self._context.wrap_socket(connection, server_side=True) as wrapped:
                    wrapped.recv(4096)
                    self._write(wrapped, self.ended)

    def close(self):
        self.ended.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(30)


@pytest.fixture
def serve(files):
    """A function that starts such a server and returns its address."""
    servers = []

    def serve(write, *, host="127.0.0.1"):
        servers.append(Server(files, write))
        return f"https://{host}:{servers[-1].port}/"

    yield serve
    for server in servers:
        server.close()


def text(content):
    return lambda connection, _ended: connection.sendall(content)


def drip(connection, ended):
    """A byte every now and then, for as long as the test lasts."""
    connection.sendall(OK + b"Content-Length: 100000\r\n\r\n")
    while not ended.wait(0.02):
        connection.sendall(b" ")


def drip_headers(connection, ended):
    connection.sendall(OK)
    while not ended.wait(0.02):
        connection.sendall(b"a")


def silence(connection, ended):
    del connection
    ended.wait(60)


def test_an_object_is_read(serve, files):
    address = serve(text(OK + b'Content-Length: 8\r\n\r\n{"a": 1}'))
    assert fetch(address, ca_file=str(files[0])) == ProviderAnswer(200, {"a": 1})


@pytest.mark.parametrize("write", [drip, drip_headers, silence])
def test_an_answer_that_never_ends_is_given_up(write, serve, files):
    with pytest.raises(Unreachable, match="within"):
        fetch(serve(write), ca_file=str(files[0]), seconds=0.5)


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"\r\n" + b" " * (LARGEST_BYTES + 1),
        OK + b"\r\n[]",
        OK + b"\r\nno JSON",
        OK + b"\r\n" + b"[" * 100_000,
        b"HTTP/1.1 302 Found\r\nLocation: https://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        b"no HTTP\r\n\r\n",
        b"",
    ],
    ids=["too large", "no object", "no JSON", "a nest", "a redirect", "no HTTP", "nothing"],
)
def test_an_answer_that_cannot_be_used_is_refused(answer, serve, files):
    with pytest.raises(Unreachable):
        fetch(serve(text(answer)), ca_file=str(files[0]))


def test_a_certificate_of_another_name_or_authority_is_refused(serve, files):
    good = text(OK + b"Content-Length: 2\r\n\r\n{}")
    with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
        fetch(serve(good, host="localhost"), ca_file=str(files[0]))
    with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
        fetch(serve(good), ca_file="")
