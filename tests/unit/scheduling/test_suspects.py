"""A node is suspect once it failed groups of several users within a window."""

from datetime import UTC, datetime, timedelta

import pytest

from scheduling.nodes.suspects import FailedGroup, NodeFault, most_avoided, suspicion

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
WINDOW = timedelta(hours=6)


def failed(user, *, hours=1, fault=NodeFault.LOST):
    return FailedGroup(user, fault, NOW - timedelta(hours=hours))


CASES = {
    "no failure": ([], None),
    "one user, many groups": ([failed("ann")] * 9, None),
    "two users": ([failed("ann"), failed("bob")], (2, 2, ("node_lost",))),
    "two users, one long ago": ([failed("ann"), failed("bob", hours=7)], None),
    "several kinds": (
        [failed("ann"), failed("bob", fault=NodeFault.START), failed("bob", fault=NodeFault.NVLINK)],
        (3, 2, ("node_lost", "nvlink_fault", "start_error")),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_node_is_suspect_by_users_not_by_groups(case):
    failures, want = CASES[case]
    result = suspicion(failures, now=NOW, window=WINDOW)
    assert (result and (result.groups, result.users, result.faults)) == want


def test_a_suspicion_lasts_from_its_last_failure():
    result = suspicion([failed("ann", hours=1), failed("bob", hours=3)], now=NOW, window=WINDOW)
    assert result.since == NOW - timedelta(hours=1)


AVOIDED = {
    "all can be avoided": (set(), "abcd"),
    "the last is needed": ({"d"}, "abc"),
    "a middle one is needed": ({"b", "d"}, "a"),
    "the first is needed": ({"a"}, ""),
    "it lacks more than these": ({"z"}, "abcd"),
}


@pytest.mark.parametrize("case", AVOIDED)
def test_the_least_important_nodes_yield(case):
    needed, want = AVOIDED[case]

    def never(nodes):
        return bool(needed.intersection(nodes)) or "z" in needed

    assert "".join(most_avoided("abcd", never=never)) == want
