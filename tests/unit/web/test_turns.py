"""One user's expensive requests follow each other, and nobody else's wait for them."""

import asyncio
import threading
from contextlib import ExitStack

import pytest

from scheduling.errors import Busy
from web.limits import turns
from web.limits.turns import MOST_SHORT, RETRY_SECONDS, Turns, short_turn, turn
from web.server.application import Application, Limits
from web.server.threads import ThreadLane, ThreadsBusy


def runs(place):
    return place.outcome.done() and place.outcome.result()


def test_one_runs_two_wait_and_the_next_is_refused_with_a_time():
    queue = Turns(most_running=8)
    places = [queue.enter("ann") for _ in range(3)]
    assert [runs(place) for place in places] == [True, False, False]
    with pytest.raises(Busy) as refusal:
        queue.enter("ann")
    assert refusal.value.retry_after == RETRY_SECONDS
    for place in places:
        assert runs(place)
        place.leave()
    assert queue.is_idle


def test_the_longest_wait_ends_first_whoever_waits():
    queue = Turns(most_running=2)
    ann, again, bob, eve = (queue.enter(user) for user in ("ann", "ann", "bob", "eve"))
    assert [runs(place) for place in (ann, again, bob, eve)] == [True, False, True, False]
    bob.leave()
    assert [runs(place) for place in (again, eve)] == [False, True]  # ann's own first one still runs
    ann.leave()
    assert runs(again)


def test_a_user_whose_requests_all_wait_has_three_places():
    queue = Turns(most_running=1)
    queue.enter("bob")
    for _ in range(3):
        queue.enter("ann")
    with pytest.raises(Busy):
        queue.enter("ann")


def test_as_many_wait_as_the_process_bears():
    queue = Turns(most_running=1, most_waiting=3)
    for user in ("ann", "bob", "eve", "joe"):
        queue.enter(user)
    with pytest.raises(Busy):
        queue.enter("kim")


def test_a_user_without_a_place_takes_that_of_one_who_has_two():
    queue = Turns(most_running=1, most_waiting=3)
    queue.enter("joe")
    first, second, bob = (queue.enter(user) for user in ("ann", "ann", "bob"))
    eve = queue.enter("eve")
    assert second.outcome.result() is False
    assert not any(place.outcome.done() for place in (first, bob, eve))
    with pytest.raises(Busy):
        queue.enter("ann")
    with pytest.raises(Busy):
        queue.enter("kim")
    second.leave()
    assert not first.outcome.done()


def test_pieces_of_long_answers_are_never_refused_and_keep_nobody_else_out():
    queue = Turns(most_running=1, most_waiting=1)
    pieces = [queue.next_piece("ann") for _ in range(5)]
    assert [runs(piece) for piece in pieces] == [True, False, False, False, False]
    with pytest.raises(Busy):
        queue.enter("ann")
    other = queue.enter("bob")
    for piece in pieces[:4]:
        piece.leave()
    assert runs(pieces[4])
    pieces[4].leave()
    assert runs(other)
    other.leave()
    assert queue.is_idle


def test_a_place_is_left_once_and_expires_only_while_it_waits():
    queue = Turns(most_running=1)
    first, second = queue.enter("ann"), queue.enter("bob")
    first.expire()
    assert runs(first)
    second.expire()
    assert second.outcome.result() is False
    for place in (first, first, second):
        place.leave()
    assert queue.is_idle


@pytest.fixture
def queue(monkeypatch):
    queue = Turns(most_running=1)
    monkeypatch.setattr(turns, "process_turns", lambda: queue)
    yield queue
    assert queue.is_idle


def test_a_thread_waits_where_no_event_loop_does(queue, monkeypatch):
    monkeypatch.setattr(turns, "WAIT_SECONDS", 0.01)
    with turn("ann"), pytest.raises(Busy), turn("bob"):
        pass


def test_a_turn_ends_with_an_error(queue):
    with pytest.raises(ZeroDivisionError), turn("ann"):
        raise ZeroDivisionError


class Response:
    streaming = False

    def __init__(self, content):
        self.content = content

    def close(self):
        pass


class Site:
    """A WSGI application with one expensive address; its callers are their paths."""

    def __init__(self):
        self.begun, self.end = threading.Event(), threading.Event()
        self.bodies = []

    def __call__(self, environ, start):
        body, user = environ["wsgi.input"].read(), environ["PATH_INFO"].split("/")[1]
        start("200 OK", [])
        if user == "cheap":
            return Response(b"cheap")
        try:
            with turn(user):
                self.bodies.append(body)
                self.begun.set()
                self.end.wait(30)
        except Busy as error:
            return Response(f"busy: {error}".encode())
        return Response(b"done " + body)


class Pieces:
    """A long answer; ``made`` are its pieces so far, each with whether it was made in its user's turn."""

    streaming, is_async, turn_user = True, False, "ann"

    def __init__(self, queue):
        self.made, self._queue = [], queue

    def __iter__(self):
        for number in range(3):
            self.made.append((number, "ann" in self._queue._running))
            yield str(number).encode()

    def close(self):
        pass


async def call(application, path, body=b"", *, take=None):
    sent = []
    scope = {
        "type": "http",
        "path": path,
        "raw_path": path.encode(),
        "method": "POST",
        "query_string": b"",
        "http_version": "1.1",
        "scheme": "http",
        "headers": [],
    }

    async def receive():
        return {"type": "http.request", "body": body}

    async def send(message):
        sent.append(message.get("body", b""))
        if take is not None and sent[-1]:
            await take.wait()

    await application(scope, receive, send)
    return b"".join(sent)


def application_of(site, *, threads):
    return Application(site, Limits(threads=threads, queue=8, body_bytes=1000, held_bytes=10_000))


async def until(condition):
    for _ in range(3000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come about")


def test_a_request_that_waits_for_a_turn_holds_no_thread(queue):
    async def run():
        site = Site()
        application = application_of(site, threads=2)
        first = asyncio.create_task(call(application, "/ann", b"1"))
        await until(site.begun.is_set)
        waiting = [asyncio.create_task(call(application, "/ann", body)) for body in (b"2", b"3")]
        await until(lambda: len(queue._waiting) == 2)
        assert await call(application, "/cheap") == b"cheap"
        assert (await call(application, "/ann", b"4")).startswith(b"busy: 3 expensive requests of yours")
        site.end.set()
        assert await first == b"done 1"
        assert [await task for task in waiting] == [b"done 2", b"done 3"]
        assert sorted(site.bodies) == [b"1", b"2", b"3"]

    asyncio.run(run())


@pytest.fixture
def long_answer(queue, monkeypatch):
    """A site whose every answer is long, and what it has made of the last one."""
    monkeypatch.setattr("web.server.application.process_turns", lambda: queue)
    answer = Pieces(queue)

    def site(_environ, start):
        start("200 OK", [])
        return answer

    return application_of(site, threads=1), answer


def test_each_piece_of_a_long_answer_is_made_in_a_turn(long_answer, queue):
    application, answer = long_answer
    assert asyncio.run(call(application, "/")) == b"012"
    assert answer.made == [(0, True), (1, True), (2, True)]


def test_a_client_that_reads_slowly_keeps_no_turn_and_has_one_piece(long_answer, queue):
    async def run():
        application, answer = long_answer
        take = asyncio.Event()
        slow = asyncio.create_task(call(application, "/", take=take))
        await until(lambda: answer.made)
        await until(lambda: queue.is_idle)
        assert [number for number, _ in answer.made] == [0]
        with turn("ann"):
            take.set()
            await until(lambda: len(queue._waiting) == 1)
        assert await slow == b"012"

    asyncio.run(run())


def test_a_long_answer_whose_caller_goes_leaves_its_place(long_answer, queue):
    async def run():
        application, answer = long_answer
        with turn("ann"):
            waiting = asyncio.create_task(call(application, "/"))
            await until(lambda: len(queue._waiting) == 1)
            waiting.cancel()
            await asyncio.wait([waiting])
        assert queue.is_idle
        assert answer.made == []

    asyncio.run(run())


def test_a_caller_that_goes_away_gives_up_the_place(queue):
    async def run():
        site = Site()
        application = application_of(site, threads=2)
        first = asyncio.create_task(call(application, "/ann", b"1"))
        await until(site.begun.is_set)
        second = asyncio.create_task(call(application, "/ann", b"2"))
        await until(lambda: len(queue._waiting) == 1)
        second.cancel()
        await until(lambda: not queue._waiting)
        site.end.set()
        assert await first == b"done 1"
        assert site.bodies == [b"1"]

    asyncio.run(run())


def test_nobody_waits_for_a_turn_in_a_process_that_stops(queue, monkeypatch):
    monkeypatch.setattr("web.server.application.process_turns", lambda: queue)

    async def run():
        site = Site()
        application = application_of(site, threads=2)
        first = asyncio.create_task(call(application, "/ann"))
        await until(site.begun.is_set)
        second = asyncio.create_task(call(application, "/ann"))
        await until(lambda: len(queue._waiting) == 1)
        application.stop()
        assert (await second).startswith(b"busy: Your expensive request has waited too long")
        site.end.set()
        assert await first == b"done "

    asyncio.run(run())


class Gated:
    """A WSGI application of one user; each request ends when the gate of its body opens."""

    def __init__(self):
        self.gates = {body: threading.Event() for body in (b"1", b"2", b"3")}
        self.begun = []

    def __call__(self, environ, start):
        body = environ["wsgi.input"].read()
        start("200 OK", [])
        with turn("ann"):
            self.begun.append(body)
            self.gates[body].wait(30)
        return Response(b"done " + body)

    def open(self, *bodies):
        for body in bodies or self.gates:
            self.gates[body].set()


async def two_of_one_user(application, site, queue):
    """Two requests of a user, the second of which waits for the first."""
    first = asyncio.create_task(call(application, "/", b"1"))
    await until(lambda: site.begun == [b"1"])
    second = asyncio.create_task(call(application, "/", b"2"))
    await until(lambda: len(queue._waiting) == 1)
    return first, second


def test_a_turn_lasts_as_long_as_its_thread_though_the_caller_has_gone(queue):
    async def run():
        site = Gated()
        application = application_of(site, threads=3)
        try:
            first, second = await two_of_one_user(application, site, queue)
            site.open(b"1")
            await first
            await until(lambda: site.begun == [b"1", b"2"])
            third = asyncio.create_task(call(application, "/", b"3"))
            await until(lambda: len(queue._waiting) == 1)
            second.cancel()
            await asyncio.wait([second])
            assert len(queue._waiting) == 1  # the thread of the second is at work
            site.open(b"2", b"3")
            assert await third == b"done 3"
        finally:
            site.open()

    asyncio.run(run())


@pytest.mark.parametrize("trouble", [ThreadsBusy, RuntimeError])
def test_a_turn_ends_where_the_request_gets_no_thread(queue, monkeypatch, trouble):
    """The queue is full, or the process stops."""

    async def run():
        site = Gated()
        application = application_of(site, threads=3)
        try:
            first, second = await two_of_one_user(application, site, queue)
            if trouble is RuntimeError:
                application._lane._executor.shutdown(wait=False)
            else:
                monkeypatch.setattr(ThreadLane, "is_full", True)
            site.open(b"1")
            await first
            await asyncio.gather(second, return_exceptions=True)
            assert site.begun == [b"1"]
            assert queue.is_idle
            with pytest.raises(trouble):
                await application._lane.admit(bytes, discard=lambda _: None)
            monkeypatch.undo()
            assert application._lane._pending == 0
        finally:
            site.open()

    asyncio.run(run())


def test_a_caller_that_goes_while_the_turn_waits_for_a_thread_gives_it_up(queue):
    async def run():
        site, busy = Gated(), threading.Event()
        application = application_of(site, threads=2)
        lane = application._lane
        try:
            first, second = await two_of_one_user(application, site, queue)
            others = [
                asyncio.create_task(lane.admit(lambda: busy.wait(30), discard=lambda _: None))
                for _ in range(2)
            ]
            await until(lambda: lane._pending == 3)
            site.open(b"1")
            await first
            await until(lambda: "ann" in queue._running and lane._pending == 3)
            second.cancel()
            await asyncio.wait([second])
            assert queue.is_idle
            busy.set()
            await asyncio.gather(*others)
            assert site.begun == [b"1"]
        finally:
            busy.set()
            site.open()

    asyncio.run(run())


def test_of_one_user_one_short_work_runs_at_once(queue):
    with short_turn("ann"):
        with short_turn("ann"):
            assert not queue.is_idle
        with short_turn("bob"):
            assert queue.is_idle
    with short_turn("ann"):
        assert queue.is_idle


def test_short_work_runs_at_once_until_much_of_it_runs(queue):
    with ExitStack() as stack:
        for number in range(MOST_SHORT):
            stack.enter_context(short_turn(f"user{number}"))
        assert queue.is_idle
        with short_turn("ann"):
            assert not queue.is_idle
        with turn("ann"), short_turn("ann"):  # a part of what has its turn
            pass
    with short_turn("ann"):
        assert queue.is_idle
