"""Owners of queued work take turns, and a full queue is shared among them."""

from collections import Counter

from cluster.fair_queue import FairQueue

WIDE, OTHER, OF_BOB, OF_POOL = (
    ("p", "ann", "wide"),
    ("p", "ann", "other"),
    ("p", "bob", "x"),
    ("q", "cid", "y"),
)


def filled(most, *pieces):
    queue = FairQueue(most=most)
    for work, owner in pieces:
        queue.put(work, owner)
    return queue


def all_of(queue):
    return [work for work, _ in iter(queue.take, None)]


def test_pools_take_turns_then_their_users_then_their_workflows():
    wide = [(f"wide{number}", WIDE) for number in range(4)]
    queue = filled(100, *wide, ("other", OTHER), ("bob", OF_BOB), ("q1", OF_POOL), ("q2", OF_POOL))
    assert all_of(queue) == ["wide0", "q1", "bob", "q2", "other", "wide1", "wide2", "wide3"]


def test_work_that_waits_already_is_queued_once_and_may_come_back_after_it_left():
    queue = filled(100, ("a", WIDE), ("a", WIDE))
    assert all_of(queue) == ["a"]
    assert queue.put("a", WIDE)
    assert all_of(queue) == ["a"]


def test_a_full_queue_makes_room_at_the_cost_of_the_owner_that_has_most():
    queue = filled(4, *((f"wide{number}", WIDE) for number in range(9)))
    assert [queue.put(work, OF_BOB) for work in ("b1", "b2", "b3")] == [True, True, False]
    assert Counter(owner for _, owner in iter(queue.take, None)) == {WIDE: 2, OF_BOB: 2}
    assert len(queue) == 0


def test_a_user_with_many_workflows_makes_room_for_others_as_one_with_a_wide_workflow_does():
    queue = filled(6, *((f"a{number}", ("p", "ann", f"w{number}")) for number in range(6)))
    assert [queue.put(f"b{number}", OF_BOB) for number in range(4)] == [True, True, True, False]
    assert [queue.put(f"q{number}", OF_POOL) for number in range(4)] == [True, True, True, False]
    assert Counter(owner[:2] for _, owner in iter(queue.take, None)) == {
        ("p", "ann"): 1,
        ("p", "bob"): 2,
        ("q", "cid"): 3,
    }
    assert len(queue) == 0


def test_a_workflow_makes_room_for_another_one_of_its_user():
    queue = filled(4, *((f"wide{number}", WIDE) for number in range(3)), ("bob", OF_BOB))
    assert [queue.put(work, OTHER) for work in ("o1", "o2")] == [True, False]
    assert Counter(owner for _, owner in iter(queue.take, None)) == {WIDE: 2, OTHER: 1, OF_BOB: 1}
