"""Why a Workload of Kueue waits, with what its queue says."""

from scheduling.backends.base import Waiting
from scheduling.backends.kueue import Kueue
from tests.fakes.kueue_objects import cluster_queue, flavor, local_queue, readings

KUEUE = Kueue()
FULL = (
    "couldn't assign flavors to pod set s-1: insufficient unused quota for nvidia.com/gpu in flavor h100, "
    "8 more needed"
)


def waiting(message, *objects):
    condition = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": message}
    queue = KUEUE.joined_queue("osmo", "team", selector={}, objects=readings(*objects)) if objects else None
    return Waiting(
        placed=False,
        expected=("w",),
        pod_groups=({"metadata": {"name": "w"}, "status": {"conditions": [condition] if message else []}},),
        pods=0,
        pods_expected=2,
        levels=(),
        sets={"s-1": 'rack "r"'},
        queue=queue,
    )


def queue(**more):
    return (
        local_queue("osmo/team", "cq"),
        cluster_queue("cq", ("h100", 64), **more),
        flavor("h100", {}, "floor"),
    )


def reasons(message, *objects):
    return KUEUE.waiting_reasons(waiting(message, *objects))


def test_a_full_quota_says_how_full_it_is_and_how_many_wait():
    (reason,) = reasons(FULL, *queue(used=72, borrowed=8, borrowing=16, waiting=5))
    assert reason.code == "QuotaExceeded"
    assert reason.message == (
        'The queue\'s quota of nvidia.com/gpu in flavor h100 is used: rack "r" needs 8 more. '
        'ClusterQueue "cq" uses 72 of its 64 nvidia.com/gpu, 8 of them borrowed, and may borrow 16. 4 other '
        "Workloads wait there; those of higher priority, then older ones, go first."
    )
    assert dict(reason.facts)["used"] == "72"


def test_without_an_observed_queue_the_scheduler_s_own_words_stay():
    (reason,) = reasons(FULL)
    assert reason.message == (
        'The queue\'s quota of nvidia.com/gpu in flavor h100 is used: rack "r" needs 8 more.'
    )


def test_a_stopped_queue_is_the_reason_whatever_kueue_said_before():
    (reason,) = reasons(FULL, *queue(stop="Hold"))
    assert (reason.code, "stopPolicy Hold" in reason.message) == ("QueueUnusable", True)


def test_a_workload_that_was_not_considered_says_who_else_waits():
    (reason,) = reasons("", *queue(waiting=2))
    assert reason.message.startswith("Kueue has not considered it yet. 1 other Workload waits there")
