"""Which work for a cluster gets one of the worker's threads."""

import pytest

from cluster import reachability
from cluster.concurrency import Seats
from cluster.connection import Access

WELL, DEAD, DEAD_TOO = (Access(f"/etc/seats/{name}") for name in ("well", "dead", "dead-too"))


@pytest.fixture
def seats():
    seats = Seats()
    seats.share(most=3, silent=1)
    reachability.note(DEAD, replied=False)
    reachability.note(DEAD_TOO, replied=False)
    yield seats
    for access in (DEAD, DEAD_TOO, WELL):
        reachability.note(access, replied=True)


def taken(seats, access, times):
    return [seats.enter(access) for _ in range(times)]


def test_no_cluster_gets_every_thread(seats):
    assert taken(seats, WELL, 4) == [True, True, True, False]


def test_a_silent_cluster_gets_one_and_all_of_them_share(seats):
    assert taken(seats, DEAD, 2) == [True, False]
    assert not seats.enter(DEAD_TOO)
    seats.leave(DEAD)
    assert seats.enter(DEAD_TOO)


def test_a_cluster_that_fell_silent_gets_no_more_than_it_holds(seats):
    taken(seats, WELL, 2)
    reachability.note(WELL, replied=False)
    assert not seats.enter(WELL)


def test_work_without_a_seat_is_done_by_those_who_sit_there_once(seats):
    taken(seats, WELL, 3)
    for work in ("a", "b", "a"):
        assert not seats.enter(WELL, work)
    assert [seats.next(WELL) for _ in range(3)] == ["a", "b", None]


def test_work_for_a_cluster_that_fell_silent_is_left_to_the_sweep(seats):
    taken(seats, WELL, 3)
    seats.enter(WELL, "a")
    reachability.note(WELL, replied=False)
    assert seats.next(WELL) is None


def test_a_seat_is_given_back_however_the_work_ends(seats):
    def fail():
        with seats.seat(DEAD):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with seats.seat(DEAD) as free, seats.seat(DEAD) as second:
        assert (free, second) == (True, False)
