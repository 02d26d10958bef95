"""Which bounds of KAI's queues keep a gang from starting (proportion/capacity_policy)."""

import pytest

from cluster.quantities import quantity
from scheduling.backends.kai.render import Kai
from scheduling.queues.queue_state import QueueBound, QueueState


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


STATUS = {
    "allocated": {"nvidia.com/gpu": "12", "cpu": "1500m", "memory": "64Gi", "example.com/nic": "4"},
    "allocatedNonPreemptible": {"nvidia.com/gpu": 8},
    "childQueues": ["a", "b"],
}
SPEC = {
    "parentQueue": "research",
    "resources": {
        "gpu": {"quota": 16, "limit": -1, "overQuotaWeight": 1},
        "cpu": {"quota": -1, "limit": 4000},
        "memory": {"limit": 1000},
    },
}


def read(obj):
    return Kai().read_queue({"metadata": {"name": "q"}, **obj}, quantity=quantity)


def test_a_queue_is_read_with_its_bounds_and_what_its_status_counts():
    reading = read({"spec": SPEC, "status": STATUS})
    assert (reading.name, reading.parent) == ("q", "research")
    assert reading.bound("gpu") == QueueBound(16, -1)
    assert reading.bound("cpu") == QueueBound(-1, 4000)
    assert reading.bound("memory") == QueueBound(0, 1_000_000_000)  # what a Queue leaves out allows nothing
    assert reading.used == {"gpu": 12, "cpu": 1500, "memory": 64 * 2**30}
    assert reading.fixed == {"gpu": 8, "cpu": 0, "memory": 0}
    assert QueueState.from_json("q", reading.to_json()) == reading


def test_a_queue_without_spec_or_status_allows_nothing_and_has_nothing_in_use():
    reading = read({})
    assert (reading.bound("gpu"), reading.used["gpu"]) == (QueueBound(0, 0), 0)


def test_a_status_that_is_no_quantity_counts_as_nothing():
    assert read({"status": {"allocated": {"nvidia.com/gpu": "many", "cpu": "-3"}}}).used["gpu"] == 0


def test_amounts_beyond_every_number_are_no_bounds_and_no_usage():
    """JSON has no infinity, so the database would refuse the queue."""
    spec = {"resources": {"memory": {"quota": 1e308, "limit": 1e308}}}
    reading = read({"spec": spec, "status": {"allocated": {"cpu": "1e400", "memory": "9e999"}}})
    assert reading.bound("memory") == QueueBound(-1, -1)
    assert (reading.used["cpu"], reading.used["memory"]) == (0, 0)


@pytest.mark.parametrize(
    ("written", "want"),
    [
        ("5m0s", 300.0),
        ("1h30m", 5400.0),
        ("500ms", 0.5),
        ("0s", 0.0),
        (None, None),
        ("soon", None),
        ("5", None),
    ],
)
def test_a_queue_says_for_how_long_its_work_is_spared(written, want):
    spec = {"resources": {}} | ({"preemptMinRuntime": written} if written else {})
    state = Kai().read_queue({"metadata": {"name": "q"}, "spec": spec}, quantity=quantity)
    assert state.preempt_min_runtime == want
    assert QueueState.from_json("q", state.to_json()) == state


def test_a_reading_of_an_older_observer_says_nothing_of_it():
    reading = {"parent": "", "bounds": {}, "used": {}, "fixed": {}}
    assert QueueState.from_json("q", reading).preempt_min_runtime is None
