"""Turns for work that costs seconds: one of a user's runs, two wait, more are refused.

A few requests that are each within all limits, such as templates, large documents or reads of wide
workflows, would otherwise take every thread from everybody. A user's turns follow each other, and a process
runs only a few turns at a time, those of users who have waited longest. When as many wait as may, a user
without a place takes that of one who has two. Counts belong to a process: its threads are its own, and a
count in the database would outlive processes that are killed.

A long answer takes a turn for each piece (``next_piece``), and none while its client reads: a slow client
keeps nobody waiting, and the answer, which has begun, is not refused.

A waiting caller holds no thread. Where the event loop serves (``allow_waiting``), a request that must wait is
given up before it has done anything, by an exception that passes what handles errors; the loop waits, and
runs the request again with its place. Elsewhere, in a command or a test, the thread waits.
"""

import threading
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Final

from scheduling.errors import Busy
from web.env import environment

MOST_WAITING_OF_USER: Final = 2
MOST_WAITING: Final = 32
WAIT_SECONDS: Final = 30.0
RETRY_SECONDS: Final = 5
MOST_SHORT: Final = 3


class Place:
    """A place among the turns; ``outcome`` is True when it may run, False when it has waited too long."""

    def __init__(self, turns: "Turns", user: str, *, is_piece: bool) -> None:
        self.user, self.is_piece = user, is_piece
        self.outcome: Future[bool] = Future()
        self._turns = turns

    def expire(self) -> None:
        """Stop waiting; no effect on a place that may run."""
        self._turns.expire(self)

    def leave(self) -> None:
        """Give the place up, waiting or not. May be repeated."""
        self._turns.leave(self)


class Turns:
    """The turns of one process, ``most_running`` at a time."""

    def __init__(self, *, most_running: int, most_waiting: int = MOST_WAITING) -> None:
        self._most_running, self._most_waiting = most_running, most_waiting
        self._lock = threading.Lock()
        self._running: dict[str, Place] = {}
        self._waiting: deque[Place] = deque()

    def enter(self, user: str) -> Place:
        """Take the user's next place. Raises Busy."""
        with self._lock:
            present = sum(place.user == user for place in self._waiting) + (user in self._running)
            if present > MOST_WAITING_OF_USER:
                raise _busy(f"{present} expensive requests of yours are worked on or wait.")
            if sum(not place.is_piece for place in self._waiting) >= self._most_waiting:
                self._make_room(user)
            return self._take(Place(self, user, is_piece=False))

    def next_piece(self, user: str) -> Place:
        """Take a place for the next piece of a long answer of the user's; it is never refused."""
        with self._lock:
            return self._take(Place(self, user, is_piece=True))

    def _take(self, place: Place) -> Place:
        self._waiting.append(place)
        self._begin()
        return place

    def leave(self, place: Place) -> None:
        with self._lock:
            if self._running.get(place.user) is place:
                del self._running[place.user]
            elif place in self._waiting:
                self._waiting.remove(place)
            self._begin()

    def expire(self, place: Place) -> None:
        with self._lock:
            if place in self._waiting:
                self._waiting.remove(place)
                place.outcome.set_result(False)

    def expire_all(self) -> None:
        """Let nobody wait any longer, since the process stops."""
        with self._lock:
            places = tuple(self._waiting)
        for place in places:
            place.expire()

    @property
    def is_idle(self) -> bool:
        return not self._running and not self._waiting

    def _make_room(self, user: str) -> None:
        """End the latest wait of the user with most places, unless that leaves them fewer. Raises Busy."""
        places = Counter(place.user for place in self._waiting if not place.is_piece)
        crowding, most = places.most_common(1)[0]
        if most <= places[user] + 1:
            raise _busy("Too many expensive requests wait.")
        latest = next(
            place for place in reversed(self._waiting) if place.user == crowding and not place.is_piece
        )
        self._waiting.remove(latest)
        latest.outcome.set_result(False)

    def _begin(self) -> None:
        """Let those run who may, the longest wait first."""
        for place in tuple(self._waiting):
            if len(self._running) >= self._most_running:
                return
            if place.user not in self._running:
                self._waiting.remove(place)
                self._running[place.user] = place
                place.outcome.set_result(True)


class Parked(BaseException):
    """The request waits for its turn. No ``Exception``: nothing on the way may take it for an error."""

    def __init__(self, place: Place) -> None:
        super().__init__("The request waits for its turn.")
        self.place = place


_short_lock = threading.Lock()
_short_users: set[str] = set()

_may_park: ContextVar[bool] = ContextVar("may_park", default=False)
_place: ContextVar[Place | None] = ContextVar("place", default=None)
_in_turn: ContextVar[bool] = ContextVar("in_turn", default=False)


@cache
def process_turns() -> Turns:
    """The turns of this process."""
    return Turns(most_running=environment().expensive_requests)


@contextmanager
def allow_waiting(place: Place | None) -> Iterator[None]:
    """Run a request whose turn the caller waits for, should Parked be raised.

    ``place`` is the one for which it has waited; it is left in the end, whether the request used it or not.
    """
    marks = _may_park.set(True), _place.set(place)
    try:
        yield
    finally:
        _place.reset(marks[1])
        _may_park.reset(marks[0])
        if place is not None:
            place.leave()


def is_repeated() -> bool:
    """Whether this request has begun before and waited for its turn, so that it was counted already."""
    return _place.get() is not None


@contextmanager
def turn(user: str) -> Iterator[None]:
    """Run the block as the user's only one of its kind in this process. Raises Busy or Parked."""
    place = _waited_for(user) or process_turns().enter(user)
    if not place.outcome.done():
        _wait(place)
    try:
        if not place.outcome.result():
            raise _busy("Your expensive request has waited too long, or others needed its place.")
        mark = _in_turn.set(True)
        try:
            yield
        finally:
            _in_turn.reset(mark)
    finally:
        place.leave()


@contextmanager
def short_turn(user: str) -> Iterator[None]:
    """Run the block at once while few of its kind run in this process, else in the user's turn.

    For work that is short itself, and waits for a lock that all of its kind share: however many requests wait
    for that lock, most threads stay free for others. One of a user's runs so. Raises Busy or Parked.
    """
    if _in_turn.get():
        yield
        return
    if is_repeated() or not _takes_short_place(user):
        with turn(user):
            yield
        return
    try:
        yield
    finally:
        with _short_lock:
            _short_users.remove(user)


def _takes_short_place(user: str) -> bool:
    with _short_lock:
        if user in _short_users or len(_short_users) >= MOST_SHORT:
            return False
        _short_users.add(user)
        return True


def _waited_for(user: str) -> Place | None:
    """The place for which this request has waited; it serves once."""
    place = _place.get()
    if place is None or place.user != user:
        return None
    _place.set(None)
    return place


def _wait(place: Place) -> None:
    if _may_park.get():
        raise Parked(place)
    try:
        place.outcome.result(WAIT_SECONDS)
    except TimeoutError:
        place.expire()


def _busy(reason: str) -> Busy:
    return Busy(
        f"{reason} Nothing was done. Try again in {RETRY_SECONDS} seconds.", retry_after=RETRY_SECONDS
    )
