"""Following a real API server through what happens to long-lived connections."""

import itertools
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from cluster.connection import Access
from cluster.gateway import ClusterGateway
from cluster.interface import Deletion
from cluster.kinds import CONFIG_MAP
from cluster.watch import Changed, Deleted, Disconnected, Reconnected, Synced, Watch
from tests.fakes.kinds import KAI_POD_GROUP


class Tunnel:
    """A TCP relay to the API server whose connections a test can cut."""

    def __init__(self, host, port):
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open = []
        self._threads = []
        self._start(self._accept)

    def _start(self, work, *arguments):
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            self._open += [near, far]
            for source, sink in ((near, far), (far, near)):
                self._start(self._relay, source, sink)

    def _relay(self, source, sink):
        with source, suppress(OSError):  # each end is closed by the thread that reads from it
            while chunk := source.recv(65536):
                sink.sendall(chunk)
        _hang_up(sink)

    def cut(self):
        for each in self._open:
            _hang_up(each)
        self._open.clear()

    def close(self):
        _hang_up(self._listener)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(5)


def _hang_up(sock):
    with suppress(OSError):  # it may be down already
        sock.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def make(real, namespace):
    def make(name, kind=CONFIG_MAP):
        metadata = {"name": name, "namespace": namespace, "labels": {"w": "1"}}
        body = {"spec": {"queue": "q", "minMember": 1}} if kind is KAI_POD_GROUP else {}
        real.create(kind, {"metadata": metadata, **body})

    return make


@pytest.fixture
def follow(namespace):
    """Start a watch of this test's objects; it is stopped afterwards."""
    started = []

    def follow(cluster, kind=CONFIG_MAP, **options):
        watch = Watch(
            cluster,
            kind,
            reduce=lambda obj: obj["metadata"]["name"],
            namespace=namespace,
            label_selector="w=1",
            **options,
        )
        started.append(watch)
        return watch

    yield follow
    for watch in started:
        watch.stop()


def test_a_kind_is_followed_from_list_to_deletion(real, namespace, make, follow):
    make("a")
    events = follow(real).events()
    assert next(events).items == ("a",)
    make("b")
    assert next(events) == Changed("b")
    assert real.delete(CONFIG_MAP, "a", namespace=namespace, uid=None) is Deletion.REMOVED
    assert next(events) == Deleted("a")


@pytest.fixture
def tunnel(access, tmp_path):
    """A tunnel to the API server, with a kubeconfig of its own."""
    config = yaml.safe_load(Path(access.kubeconfig).read_text())
    cluster = config["clusters"][0]["cluster"]
    server = urlsplit(cluster["server"])
    tunnel = Tunnel(server.hostname, server.port)
    tunnel.access = Access(str(tmp_path / "through"))
    cluster["server"] = f"https://127.0.0.1:{tunnel.port}"
    Path(tunnel.access.kubeconfig).write_text(yaml.safe_dump(config))
    yield tunnel
    tunnel.close()


def test_nothing_is_missed_when_the_connection_is_cut(tunnel, make, follow):
    events = follow(ClusterGateway(tunnel.access)).events()
    assert isinstance(next(events), Synced)
    make("a")
    assert next(events) == Changed("a")
    threading.Timer(0.2, lambda: (tunnel.cut(), make("b"))).start()
    after = list(itertools.islice(events, 3))
    assert [type(event) for event in after] == [Disconnected, Reconnected, Changed]
    assert after[-1] == Changed("b")


def test_a_version_that_is_too_old_leads_to_everything_anew(real, make, follow):
    """On a kind that was installed later: a young server still remembers all of the others."""
    make("a", KAI_POD_GROUP)
    watch = follow(real, KAI_POD_GROUP)
    events = watch.events()
    next(events)
    watch._version = "1"
    again = next(events)
    assert isinstance(again, Synced)
    assert again.items == ("a",)


def test_stop_ends_a_read_that_waits_for_the_server(real, make, follow):
    watch = follow(real)
    events = watch.events()
    next(events)
    threading.Timer(0.5, watch.stop).start()
    began = time.monotonic()
    assert list(events) == []
    assert time.monotonic() - began < 60  # the stream itself would have lasted for minutes


def test_everything_is_listed_again_when_it_is_time(real, make, follow):
    make("a")
    events = follow(real, relist_seconds=1.0).events()
    assert [type(event) for event in itertools.islice(events, 3)] == [Synced, Synced, Synced]
