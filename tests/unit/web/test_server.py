"""The parts of web's server that need no connection: environments, bounds, and the lane of threads."""

import asyncio
import ctypes
import gc
import subprocess
import sys
import threading
import weakref
from functools import partial
from types import SimpleNamespace

import pytest

from localcluster.directories import CHECKOUT
from web.server.application import PIECE, Application, Limits
from web.server.budget import ByteBudget
from web.server.environ import environ_of
from web.server.protocol import Connections
from web.server.sockets import RESTARTS, SessionAnswer
from web.server.threads import ThreadLane, ThreadsBusy


def scope(*headers, raw_path=b"/a%20b"):
    return {
        "method": "GET",
        "raw_path": raw_path,
        "query_string": b"q=%00",
        "http_version": "1.1",
        "scheme": "http",
        "client": ("192.0.2.1", 4),
        "server": ("127.0.0.1", 80),
        "headers": [(name.encode(), value.encode()) for name, value in headers],
    }


def test_an_environment_has_what_was_sent():
    sent = scope(
        ("host", "h"), ("content-type", "t"), ("x-a", "1"), ("x-a", "2"), ("cookie", "a=1"), ("cookie", "b")
    )
    environ = environ_of(sent, b"12")
    want = {
        "PATH_INFO": "/a b",
        "QUERY_STRING": "q=%00",
        "REMOTE_ADDR": "192.0.2.1",
        "HTTP_HOST": "h",
        "CONTENT_TYPE": "t",
        "CONTENT_LENGTH": "2",
        "HTTP_X_A": "1,2",
        "HTTP_COOKIE": "a=1; b",
    }
    assert {name: environ[name] for name in want} == want
    assert environ["wsgi.input"].read() == b"12"


def test_names_with_underscores_are_left_out_whoever_sends_them():
    environ = environ_of(scope(("x_osmo_user", "root"), ("content_length", "9"), ("path_info", "/x")), b"")
    assert "HTTP_X_OSMO_USER" not in environ
    assert "CONTENT_LENGTH" not in environ
    assert environ["PATH_INFO"] == "/a b"


def test_a_repeated_identity_header_is_worth_nothing():
    environ = environ_of(scope(("x-osmo-user", "ann"), ("X-Osmo-User", "ann")), b"")
    assert environ["HTTP_X_OSMO_USER"] != "ann"
    assert "ann" not in environ["HTTP_X_OSMO_USER"]


@pytest.mark.parametrize(
    ("target", "want"),
    [
        (b"http://h/a?", "/a"),
        (b"http://h", "/"),
        (b"http://h?/a", "/"),
        (b"http://[::1/a", "/a"),
        (b"http://[h]/a//b", "/a//b"),
        (b"http://h\xff\xe2\x84\x80/a", "/a"),
        (b"://", "/"),
        (b"//api/x", "//api/x"),
        (b"*", "*"),
    ],
)
def test_a_target_may_be_a_whole_url(target, want):
    assert environ_of(scope(raw_path=target), b"")["PATH_INFO"] == want


def test_the_request_that_has_held_memory_longest_is_cut_off():
    async def run():
        budget, ended = ByteBudget(100), []

        async def hold(name, size, *, keeps=False):
            try:
                with budget.share() as share:
                    share.add(size)
                    if keeps:
                        share.keep()
                    await asyncio.sleep(10)
            except asyncio.CancelledError:
                ended.append(name)

        tasks = []
        for name, size, keeps in (("kept", 40, True), ("old", 40, False), ("new", 40, False)):
            tasks.append(asyncio.create_task(hold(name, size, keeps=keeps)))
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert ended == ["old"]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)
        assert budget._total == 0

    asyncio.run(run())


class Text:
    """A stream that gives one text, and what Django's handler says of it."""

    streaming = is_async = True

    def __init__(self, text):
        self._text = text

    async def __aiter__(self):
        yield self._text

    def close(self):
        pass


def test_a_text_that_a_stream_gave_at_once_is_sent_by_pieces_and_counted():
    text = b"x" * 700_000

    def wsgi(_environ, start):
        start("200 OK", [])
        return Text(text)

    async def run():
        limits = Limits(threads=1, queue=9, body_bytes=10, held_bytes=1_000_000)
        application, sent, begun = Application(wsgi, limits), {"unread": [], "read": []}, asyncio.Event()

        async def receive():
            return {"type": "http.request"}

        async def call(name):
            async def send(message):
                sent[name].append(message.get("body", b""))
                if name == "unread" and sent[name][-1]:
                    begun.set()
                    await asyncio.sleep(60)

            await application({"type": "http", "path": "/a", **scope()}, receive, send)

        unread = asyncio.create_task(call("unread"))
        await begun.wait()
        await call("read")
        await asyncio.wait([unread], timeout=5)
        assert unread.cancelled()
        return sent

    sent = asyncio.run(run())
    assert b"".join(sent["read"]) == text
    assert max(map(len, sent["read"] + sent["unread"])) == PIECE


def test_a_session_that_begins_while_the_process_stops_is_closed_at_once():
    application = Application(None, Limits(threads=1, queue=0, body_bytes=10, held_bytes=10))
    events = []

    class Socket:
        async def close(self, code, _reason):
            events.append(code)

    async def session(_socket):
        events.append("begun")

    application.stop()
    asyncio.run(application.run(SessionAnswer(session), Socket()))
    assert events == [RESTARTS]


class File:
    """A static file, as Django streams one."""

    streaming, is_async, block_size = True, False, 4096

    def __init__(self, size):
        self._size, self.readers = size, set()

    def __iter__(self):
        for start in range(0, self._size, self.block_size):
            self.readers.add(threading.current_thread())
            yield b"x" * min(self.block_size, self._size - start)

    def close(self):
        pass


def test_files_are_read_without_threads_which_requests_would_wait_for():
    file, sent = File(100_000), []

    def wsgi(_environ, start):
        start("200 OK", [])
        return file

    async def receive():
        return {"type": "http.request"}

    async def send(message):
        sent.append(message.get("body", b""))

    application = Application(wsgi, Limits(threads=1, queue=0, body_bytes=10, held_bytes=1_000_000))
    asyncio.run(application({"type": "http", "path": "/a", **scope()}, receive, send))
    assert b"".join(sent) == b"x" * 100_000
    assert file.readers == {threading.current_thread()}


class Waiter:
    def __init__(self, connections, address):
        self.address, self.connections, self.reasons = address, connections, []
        connections.opened()
        connections.begin_wait(self)

    def cut(self, reason):
        self.reasons.append(reason)
        self.connections.closed(self)


def test_the_longest_wait_ends_first_for_an_address_and_for_the_process():
    connections = Connections(most=4, most_of_address=2)
    waiters = [Waiter(connections, address) for address in ("a", "b", "a", "a", "c", "d")]
    assert [waiter.reasons for waiter in waiters] == [
        ["address_connections"],
        ["connections"],
        [],
        [],
        [],
        [],
    ]
    connections.end_wait(waiters[2])
    Waiter(connections, "e")
    assert waiters[2].reasons == []  # its request is under way
    assert waiters[3].reasons == ["connections"]


def test_a_proxy_of_ours_has_no_bound_of_its_own():
    connections = Connections(most=100, most_of_address=1)
    assert [Waiter(connections, "").reasons for _ in range(5)] == [[]] * 5


def test_a_full_lane_refuses_and_goes_on_afterwards():
    async def run():
        lane = ThreadLane("t", threads=1, queue=1, queue_seconds=10)
        free, discarded = threading.Event(), []
        first = asyncio.create_task(lane.admit(lambda: free.wait(10), discard=discarded.append))
        second = asyncio.create_task(lane.admit(lambda: "second", discard=discarded.append))
        await asyncio.sleep(0.05)
        assert lane.is_full
        with pytest.raises(ThreadsBusy):
            await lane.admit(lambda: "third", discard=discarded.append)
        first.cancel()  # whose caller has gone
        free.set()
        assert await second == "second"
        assert discarded == [True]
        assert not lane.is_full

    asyncio.run(run())


def test_a_request_that_waited_too_long_in_the_queue_is_refused():
    async def run():
        lane = ThreadLane("t", threads=1, queue=1, queue_seconds=-1)
        with pytest.raises(ThreadsBusy):
            await lane.admit(SimpleNamespace, discard=lambda _: None)

    asyncio.run(run())


def test_a_request_that_leaves_the_queue_leaves_no_body_there():
    """The call stays in the executor's queue until a thread is free, and nothing counts its body there."""

    async def run():
        lane, free = ThreadLane("t", threads=1, queue=1, queue_seconds=10), threading.Event()
        first = asyncio.create_task(lane.admit(lambda: free.wait(10), discard=lambda _: None))
        body = {b"text"}
        is_kept = weakref.ref(body)
        second = asyncio.create_task(lane.admit(partial(len, body), discard=lambda _: None))
        del body
        try:
            await asyncio.sleep(0)  # the second has begun to wait
            assert lane.is_full
            second.cancel()
            await asyncio.wait([second])
            del second
            gc.collect()
            assert is_kept() is None
        finally:
            free.set()
        assert await first

    asyncio.run(run())


KEPT_MIB = """
import sys
sys.path.insert(0, {root!r})
from web.operation.process_memory import return_large_blocks

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 // 2**20

if {is_set}:
    return_large_blocks()
bytes(30 * 2**20)  # by which glibc learns that this is no large block
before, held = resident(), []
for _ in range(100):
    held.append((bytearray(b"x" * 2**20), bytearray(3000)))
held = [small for _, small in held]
print(resident() - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library is not glibc")
def test_the_memory_of_large_answers_goes_back_to_the_system():
    def kept(*, is_set):
        code = KEPT_MIB.format(root=str(CHECKOUT), is_set=is_set)
        return int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)

    assert kept(is_set=True) < 20 < kept(is_set=False)
