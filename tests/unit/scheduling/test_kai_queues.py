"""Which bounds of KAI's queues keep a gang from starting (proportion/capacity_policy)."""

import pytest

from scheduling.backends.kai.render import Kai
from scheduling.queues import QueueBound, QueueState


def queue(name, *, quota=-1, limit=-1, used=0, fixed=0):
    return QueueState(
        name=name, bounds={"gpu": QueueBound(quota, limit)}, used={"gpu": used}, fixed={"gpu": fixed}
    )


CASES = {
    "room below every bound": ("NORMAL", [queue("q", quota=8, limit=16, used=8, fixed=4)], 4, []),
    "beyond the limit": ("LOW", [queue("q", limit=16, used=12)], 8, [("q", "limit", False)]),
    "more than the limit by itself": ("LOW", [queue("q", limit=4, used=4)], 8, [("q", "limit", True)]),
    "beyond the quota, and to be preempted": ("LOW", [queue("q", quota=4, used=4)], 8, []),
    "beyond the quota, and safe": ("NORMAL", [queue("q", quota=8, fixed=4)], 8, [("q", "quota", False)]),
    "what may be preempted leaves the quota": ("HIGH", [queue("q", quota=8, used=8)], 8, []),
    "the limit of the queue above": (
        "LOW",
        [queue("q"), queue("above", limit=16, used=16)],
        8,
        [("above", "limit", False)],
    ),
    "limits come before quotas": (
        "HIGH",
        [queue("q", quota=4), queue("above", limit=4)],
        8,
        [("above", "limit", True), ("q", "quota", True)],
    ),
    "nothing asked for of a resource that is full": ("LOW", [queue("q", limit=0, used=0)], 0, []),
}


@pytest.mark.parametrize("case", CASES)
def test_bounds(case):
    priority, queues, gpus, want = CASES[case]
    shortages = Kai().shortages(queues, {"gpu": gpus}, priority=priority)
    assert [(entry.queue, entry.bound, entry.is_lasting) for entry in shortages] == want
