"""Callers that are told to come again later, and those that are let in all the same."""

import pytest

from workflows.submission.backpressure import Bounds, refusal

BOUNDS = Bounds(pool=50, overall=100)
CASES = {
    "nothing waits": ({}, True),
    "a little waits": ({"mine": 49}, True),
    "its own bound is reached": ({"mine": 50}, False),
    "another pool is full": ({"other": 50}, True),
    "all are full and it holds its share": ({"a": 40, "b": 40, "mine": 40}, False),
    "all are full and it holds less than its share": ({"a": 50, "b": 49, "mine": 1}, True),
    "all are full and it holds nothing": ({"a": 50, "b": 50}, True),
}


@pytest.mark.parametrize(("backlog", "let_in"), CASES.values(), ids=CASES.keys())
def test_a_pool_is_let_in_unless_it_holds_too_much(backlog, let_in):
    reason = refusal(backlog, pool="mine", bounds=BOUNDS)
    assert (reason is None) == let_in
    assert let_in or '"mine"' in reason


def test_all_pools_together_stay_under_twice_the_bound():
    pools = [f"p{n}" for n in range(7)]
    backlog = dict.fromkeys(pools, 0)
    while let_in := [p for p in pools if refusal(backlog, pool=p, bounds=BOUNDS) is None]:
        for pool in let_in:
            backlog[pool] += 1
    assert sum(backlog.values()) <= 2 * BOUNDS.overall
