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


def are_free(slots):
    return [slot is not None for slot in slots]


def of(workflow, *pieces, user="ann"):
    return dict.fromkeys(pieces, ("pool", user, workflow))


def test_no_cluster_gets_every_thread(limit):
    assert are_free(taken(limit, WELL, 4)) == [True, True, True, False]


def test_the_last_slot_of_a_cluster_is_for_a_workflow_that_has_none(limit):
    wide = [limit.enter(WELL, of("wide", piece)) for piece in "abc"]
    assert are_free(wide) == [True, True, False]
    assert limit.enter(WELL, of("small", "d"))


def test_a_silent_cluster_gets_one_and_all_of_them_share(limit):
    slot, second = taken(limit, DEAD, 2)
    assert second is None
    assert not limit.enter(DEAD_TOO)
    slot.leave()
    assert limit.enter(DEAD_TOO)


def test_a_cluster_that_fell_silent_gets_no_more_than_it_holds(limit):
    taken(limit, WELL, 2)
    reachability.note(WELL, replied=False)
    assert not limit.enter(WELL)


def test_work_without_a_slot_is_done_once_by_threads_that_have_one(limit):
    slot, *_ = taken(limit, WELL, 3)
    for work in ("a", "b", "a"):
        assert not limit.enter(WELL, of("w", work))
    assert [slot.next() for _ in range(3)] == ["a", "b", None]


def test_queued_work_is_done_in_turns_of_its_owners(limit):
    slot, *_ = taken(limit, WELL, 3)
    for work in (of("wide", "w1", "w2", "w3"), of("other", "o1"), of("small", "s1", user="bob")):
        limit.enter(WELL, work)
    assert [slot.next() for _ in range(5)] == ["w1", "s1", "o1", "w2", "w3"]


def test_work_for_a_cluster_that_fell_silent_is_left_to_the_sweep(limit):
    slot, *_ = taken(limit, WELL, 3)
    limit.enter(WELL, of("w", "a"))
    reachability.note(WELL, replied=False)
    assert slot.next() is None


def test_work_that_the_last_thread_leaves_is_left_to_the_sweep(limit):
    first, *others = taken(limit, WELL, 3)
    limit.enter(WELL, of("w", "a"))
    first.leave()
    assert limit.waiting() == {"a"}
    for slot in others:
        slot.leave()
    assert limit.waiting() == frozenset()


def test_a_slot_is_given_back_however_the_work_ends(limit):
    def fail():
        with limit.slot(DEAD):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with limit.slot(DEAD) as free, limit.slot(DEAD) as second:
        assert (free, second) == (True, False)
