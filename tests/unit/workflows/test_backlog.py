"""Callers who must come again later, and those who are let in all the same."""

from types import SimpleNamespace

import pytest

from workflows.submission.backpressure import Backlog, Bounds, Submitter, groups_to_create, refusal

BOUNDS = Bounds(pool=60, overall=100)
CASES = {
    "nothing waits": ({}, 1, True),
    "nothing waits and the document is as large as the limit": ({}, 60, True),
    "nothing waits and the document is larger than all limits": ({}, 500, True),
    "a little waits": ({"mine": {"me": 59}}, 1, True),
    "the document goes beyond the limit": ({"mine": {"me": 59}}, 2, False),
    "the limit is reached": ({"mine": {"me": 60}}, 1, False),
    "others fill the pool": ({"mine": {"a": 60}}, 1, True),
    "others fill the pool and the document is large": ({"mine": {"a": 60}}, 500, True),
    "others fill the pool and the caller reaches a share": ({"mine": {"a": 60, "me": 29}}, 1, True),
    "others fill the pool and the caller would have more than a share": (
        {"mine": {"a": 60, "me": 29}},
        2,
        False,
    ),
    "the caller alone uses the pool": ({"mine": {"me": 59}, "b": {"a": 1}}, 1, True),
    "another pool is full": ({"other": {"me": 60}}, 1, True),
    "all are full and the pool is beyond its part": (
        {"a": {"x": 40}, "b": {"y": 40}, "mine": {"me": 40}},
        1,
        False,
    ),
    "all are full and the pool is below its part": (
        {"a": {"x": 50}, "b": {"y": 49}, "mine": {"me": 1}},
        1,
        True,
    ),
    "all are full, and somebody else has the pool's part": (
        {"a": {"x": 60}, "mine": {"y": 39, "me": 1}},
        1,
        True,
    ),
    "all are full and the pool has nothing": ({"a": {"x": 50}, "b": {"x": 50}}, 1, True),
}


def refused(backlog, added, *, user="me", names_others=False):
    submitter = Submitter(user=user, names_others=names_others)
    return refusal(Backlog(backlog), pool="mine", submitter=submitter, added=added, bounds=BOUNDS)


@pytest.mark.parametrize(("backlog", "added", "let_in"), CASES.values(), ids=CASES.keys())
def test_a_caller_is_let_in_unless_their_groups_are_too_many(backlog, added, let_in):
    reason = refused(backlog, added)
    assert (reason is None) == let_in
    assert let_in or '"mine"' in reason


def test_whatever_one_user_sends_others_get_their_share():
    counts = {"greedy": 0}
    backlog = {"mine": counts}
    while refused(backlog, 7, user="greedy") is None:
        counts["greedy"] += 7
    for user in ("a", "b"):
        counts[user] = 0
        while refused(backlog, 1, user=user) is None:
            counts[user] += 1
    assert counts["a"] >= BOUNDS.pool // 3
    assert counts["b"] >= BOUNDS.pool // 3


def test_all_pools_together_stay_under_twice_the_bound():
    pools = [f"p{n}" for n in range(7)]
    backlog = {pool: {"me": 0} for pool in pools}

    def is_let_in(pool):
        submitter = Submitter(user="me", names_others=False)
        return refusal(Backlog(backlog), pool=pool, submitter=submitter, added=1, bounds=BOUNDS) is None

    while let_in := [pool for pool in pools if is_let_in(pool)]:
        for pool in let_in:
            backlog[pool]["me"] += 1
    assert sum(of["me"] for of in backlog.values()) <= 2 * BOUNDS.overall


def test_a_refusal_says_whose_groups_they_are_as_far_as_the_reader_may_know():
    backlog = {"mine": {"ann": 40, "bob": 10, "cid": 9, "dan": 8, "me": 12}}
    count = (
        'Pool "mine" has 79 task groups that wait for workers to create them: 12 of yours and 67 of others'
    )
    share = (
        "The pool's limit is 60, your share of it is 12, and this workflow adds 1. Nothing was accepted: "
        "submit again later."
    )
    assert refused(backlog, 1) == f"{count}. {share}"
    assert refused(backlog, 1, names_others=True) == f"{count} (ann: 40, bob: 10, cid: 9 and 1 more). {share}"


def test_a_refusal_says_when_a_workflow_beyond_every_share_is_accepted():
    assert "it is accepted when none of yours is left" in refused({"mine": {"me": 1}}, 500)


def test_a_refusal_names_the_limit_that_all_pools_share():
    assert "All pools together have a limit of 100: this pool's part of it is 50" in refused(
        {"other": {"a": 60}, "mine": {"me": 50}}, 1
    )


def test_of_a_document_the_groups_count_that_wait_for_no_other():
    groups = [
        SimpleNamespace(name=name, upstream=upstream)
        for name, upstream in (("a", ()), ("b", ()), ("c", ("a",)), ("d", ("a", "b")), ("e", ("c",)))
    ]
    assert groups_to_create(groups, carried=frozenset()) == 2
    assert groups_to_create(groups, carried=frozenset({"a"})) == 2  # b and c
    assert groups_to_create(groups, carried=frozenset({"a", "b"})) == 2  # c and d
