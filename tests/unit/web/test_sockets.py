"""A caller's socket between what the loop feeds it and what a session reads."""

import asyncio

import pytest
from websockets.client import ClientProtocol
from websockets.frames import Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

from web.server import sockets
from web.server.sockets import CallerLeft, CallerSocket


class Transport:
    def __init__(self):
        self.written, self.is_read, self.is_aborted, self.unsent = b"", True, False, 0

    def write(self, data):
        self.written += data

    def get_write_buffer_size(self):
        return self.unsent

    def pause_reading(self):
        self.is_read = False

    def resume_reading(self):
        self.is_read = True

    def is_closing(self):
        return self.is_aborted

    def abort(self):
        self.is_aborted = True


class Caller:
    """A socket, and the client at its other end."""

    def __init__(self):
        self.transport, self.client = Transport(), ClientProtocol(parse_uri("ws://a/"))

        async def drained():
            await asyncio.sleep(0)

        self.socket = CallerSocket(self.transport, drained)
        request = self.client.connect()
        self.client.send_request(request)
        self.client.data_to_send()
        headers = [(name.upper(), value) for name, value in request.headers.raw_items()]
        assert self.socket.accept(headers, subprotocols=["two", "one"])
        self.read()

    def read(self):
        """The events of what the server has written."""
        self.client.receive_data(self.transport.written)
        self.transport.written = b""
        return self.client.events_received()

    def send(self):
        self.socket.feed_data(b"".join(self.client.data_to_send()))


def run(scenario):
    asyncio.run(scenario())


def test_messages_arrive_whole_and_in_order():
    async def scenario():
        caller = Caller()
        caller.client.send_binary(b"on", fin=False)
        caller.client.send_continuation(b"e", fin=True)
        caller.client.send_binary(b"")
        caller.send()
        assert [await caller.socket.receive(), await caller.socket.receive()] == [b"one", b""]

    run(scenario)


def test_a_caller_who_sends_faster_than_the_session_reads_is_not_read():
    async def scenario():
        caller = Caller()
        for _ in range(3):
            caller.client.send_binary(b"x" * sockets.MOST_MESSAGE)
        caller.send()
        assert not caller.transport.is_read
        for _ in range(3):
            await caller.socket.receive()
        assert caller.transport.is_read

    run(scenario)


def test_a_message_that_is_too_long_ends_the_socket():
    async def scenario():
        caller = Caller()
        caller.client.send_binary(b"x" * (sockets.MOST_MESSAGE + 1))
        caller.send()
        (closed,) = caller.read()
        assert closed.opcode is Opcode.CLOSE
        assert caller.client.close_rcvd.code == 1009
        with pytest.raises(CallerLeft):
            await caller.socket.receive()

    run(scenario)


def test_garbage_ends_the_socket():
    async def scenario():
        caller = Caller()
        caller.socket.feed_data(b"\xff\xff\xff\xff")
        with pytest.raises(CallerLeft):
            await caller.socket.receive()
        with pytest.raises(CallerLeft):
            await caller.socket.send(b"x")

    run(scenario)


def test_pings_are_answered_while_nothing_is_read():
    async def scenario():
        caller = Caller()
        caller.client.send_ping(b"there?")
        caller.send()
        assert [event.opcode for event in caller.read()] == [Opcode.PONG]

    run(scenario)


def test_a_caller_who_answers_no_ping_is_cut(monkeypatch):
    monkeypatch.setattr(sockets, "PING_SECONDS", 0.5)

    async def scenario():
        silent, alive = Caller(), Caller()
        while not silent.transport.is_aborted:
            await asyncio.sleep(0.02)
            alive.read()
            alive.send()
        assert not alive.transport.is_aborted

    run(scenario)


def test_a_caller_who_makes_the_server_write_more_than_it_takes_is_not_read():
    async def scenario():
        caller = Caller()
        caller.transport.unsent = sockets.MOST_UNSENT + 1
        caller.client.send_ping(b"x")
        caller.send()
        assert not caller.transport.is_read
        caller.transport.unsent = 0
        caller.socket.pace()
        assert caller.transport.is_read

    run(scenario)


def test_a_caller_who_is_behind_on_both_ends_is_read_when_neither_is_full():
    async def scenario():
        caller = Caller()
        for _ in range(3):
            caller.client.send_binary(b"x" * sockets.MOST_MESSAGE)
        caller.transport.unsent = sockets.MOST_UNSENT + 1
        caller.send()
        for _ in range(3):
            await caller.socket.receive()
        assert not caller.transport.is_read
        caller.transport.unsent = 0
        caller.socket.pace()
        assert caller.transport.is_read

    run(scenario)


def test_a_close_reads_the_callers_word_behind_messages_that_nobody_took():
    async def scenario():
        caller = Caller()
        for _ in range(3):
            caller.client.send_binary(b"x" * sockets.MOST_MESSAGE)
        caller.send()
        closing = asyncio.create_task(caller.socket.close())
        await asyncio.sleep(0)
        assert caller.transport.is_read
        caller.read()
        caller.send()
        await asyncio.wait_for(closing, 1)

    run(scenario)


def test_a_close_waits_for_the_caller_but_not_for_long(monkeypatch):
    monkeypatch.setattr(sockets, "CLOSE_SECONDS", 0.05)

    async def scenario():
        caller = Caller()
        await caller.socket.close(1012, "service restart")
        caller.read()
        assert (caller.client.close_rcvd.code, caller.client.close_rcvd.reason) == (1012, "service restart")
        assert caller.client.state is not State.OPEN

    run(scenario)
