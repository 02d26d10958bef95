"""What a followed log keeps of memory and connections: a process follows a thousand."""

import asyncio
import gc
import socket
import ssl
import threading
import tracemalloc
from asyncio import sslproto
from contextlib import AsyncExitStack, suppress

import pytest
import yaml

from cluster.connection import Access
from cluster.errors import NotServed
from cluster.gateway import ClusterGateway
from tests.builders.certificates import loopback_certificate

STREAMS = 20
MOST_BYTES = 64 * 1024  # of one stream
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
LINES = b"a line of a log\n" * 1024
CHUNK = f"{len(LINES):x}\r\n".encode() + LINES + b"\r\n"


class TlsServer:
    """Answers every request with chunks, as many as are to be had or as the client lets it send.

    It ends a connection in order only with the server.
    """

    def __init__(self, certificate, key, *, chunks, head=HEAD):
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(certificate, key)
        self._chunks, self._head = chunks, head
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=STREAMS)
        self._clients = []
        self.sent = 0
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        for each in (self._listener, *self._clients):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self):
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._clients.append(client)
                threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client):
        with suppress(OSError):
            tls = self._context.wrap_socket(client, server_side=True)
            self._clients.append(tls)
            tls.recv(4096)
            tls.sendall(self._head)
            for _ in range(self._chunks):
                tls.sendall(CHUNK)
                self.sent += len(CHUNK)
            tls.recv(1)  # until the client goes


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return loopback_certificate(tmp_path_factory.mktemp("certificate"))


def gateway(directory, server, certificate):
    content = {
        "clusters": [
            {"name": "c", "cluster": {"server": server.url, "certificate-authority": str(certificate)}}
        ],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "main",
    }
    (directory / "config").write_text(yaml.safe_dump(content))
    return ClusterGateway(Access(str(directory / "config")))


async def followed(stack, cluster):
    """Begin to follow a log and take its first chunk."""
    chunks = await stack.enter_async_context(cluster.follow_log("p", namespace="ns"))
    return await anext(chunks)


def tls_connections():
    """Those of the running loop."""
    loop = asyncio.get_running_loop()
    connections = [each for each in gc.get_objects() if type(each) is sslproto.SSLProtocol]
    return [each for each in connections if each._loop is loop]


def test_a_silent_log_keeps_little(tmp_path, certificate):
    async def memory(cluster):
        async with AsyncExitStack() as stack:
            await followed(stack, cluster)  # what all share
            gc.collect()
            tracemalloc.start()
            try:
                for _ in range(STREAMS):
                    assert (await followed(stack, cluster)).startswith(b"a line")
                gc.collect()
                return tracemalloc.get_traced_memory()[0]
            finally:
                tracemalloc.stop()

    with TlsServer(*certificate, chunks=1) as server:
        size = asyncio.run(memory(gateway(tmp_path, server, certificate[0])))
    assert size / STREAMS < MOST_BYTES


def test_a_log_that_is_written_faster_than_it_is_read_waits_in_the_cluster(tmp_path, certificate):
    async def waiting(cluster, server):
        async with AsyncExitStack() as stack:
            await followed(stack, cluster)
            sent = -1
            while sent != server.sent:
                sent = server.sent
                await asyncio.sleep(0.5)
            (size,) = [each._get_read_buffer_size() for each in tls_connections()]
            return size

    with TlsServer(*certificate, chunks=1000) as server:
        size = asyncio.run(waiting(gateway(tmp_path, server, certificate[0]), server))
        assert server.sent < 1000 * len(CHUNK)
    assert size < MOST_BYTES


REFUSAL = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nno"


def test_a_refused_log_leaves_no_connection_that_waits_for_the_server_to_end_it(tmp_path, certificate):
    async def refused(cluster):
        with pytest.raises(NotServed):
            async with AsyncExitStack() as stack:
                await followed(stack, cluster)
        for _ in range(2):
            await asyncio.sleep(0)  # what was hung up on ends in the loop's next round
        return [each for each in tls_connections() if each._transport is not None]

    with TlsServer(*certificate, chunks=0, head=REFUSAL) as server:
        assert asyncio.run(refused(gateway(tmp_path, server, certificate[0]))) == []
