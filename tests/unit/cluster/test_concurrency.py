"""Which work for a cluster gets one of the worker's threads."""

import pytest

from cluster import reachability
from cluster.concurrency import ConcurrencyLimit
from cluster.connection import Access

WELL, DEAD, DEAD_TOO = (Access(f"/etc/clusters/{name}") for name in ("well", "dead", "dead-too"))


@pytest.fixture
def limit():
    limit = ConcurrencyLimit()
    limit.share(most=3, silent=1)
    reachability.note(DEAD, replied=False)
    reachability.note(DEAD_TOO, replied=False)
    yield limit
    for access in (DEAD, DEAD_TOO, WELL):
        reachability.note(access, replied=True)


def taken(limit, access, times):
    return [limit.enter(access) for _ in range(times)]


def test_no_cluster_gets_every_thread(limit):
    assert taken(limit, WELL, 4) == [True, True, True, False]


def test_a_silent_cluster_gets_one_and_all_of_them_share(limit):
    assert taken(limit, DEAD, 2) == [True, False]
    assert not limit.enter(DEAD_TOO)
    limit.leave(DEAD)
    assert limit.enter(DEAD_TOO)


def test_a_cluster_that_fell_silent_gets_no_more_than_it_holds(limit):
    taken(limit, WELL, 2)
    reachability.note(WELL, replied=False)
    assert not limit.enter(WELL)


def test_work_without_a_slot_is_done_once_by_threads_that_have_one(limit):
    taken(limit, WELL, 3)
    for work in ("a", "b", "a"):
        assert not limit.enter(WELL, work)
    assert [limit.next(WELL) for _ in range(3)] == ["a", "b", None]


def test_work_for_a_cluster_that_fell_silent_is_left_to_the_sweep(limit):
    taken(limit, WELL, 3)
    limit.enter(WELL, "a")
    reachability.note(WELL, replied=False)
    assert limit.next(WELL) is None


def test_work_that_the_last_thread_leaves_is_left_to_the_sweep(limit):
    taken(limit, WELL, 3)
    limit.enter(WELL, "a")
    limit.leave(WELL)
    assert limit.waiting() == {"a"}
    limit.leave(WELL)
    limit.leave(WELL)
    assert limit.waiting() == frozenset()


def test_a_slot_is_given_back_however_the_work_ends(limit):
    def fail():
        with limit.slot(DEAD):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with limit.slot(DEAD) as free, limit.slot(DEAD) as second:
        assert (free, second) == (True, False)
