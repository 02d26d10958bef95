"""Why a Workload of Kueue waits, with what its queue says."""

import pytest

from scheduling.backends.base import Waiting
from scheduling.backends.kueue import Kueue
from scheduling.queues.joined_queues import QueuedGang, QueuePosition, position_of
from tests.fakes.kueue_objects import cluster_queue, flavor, local_queue, readings

KUEUE = Kueue()
FULL = (
    "couldn't assign flavors to pod set s-1: insufficient unused quota for nvidia.com/gpu in flavor h100, "
    "8 more needed"
)


def waiting(message, *objects, position=None, seconds=0.0, **status):
    condition = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": message}
    queue = KUEUE.joined_queue("osmo", "team", selector={}, objects=readings(*objects)) if objects else None
    return Waiting(
        placed=False,
        expected=("w",),
        pod_groups=(
            {"metadata": {"name": "w"}, "status": {"conditions": [condition] if message else [], **status}},
        ),
        pods=0,
        pods_expected=2,
        levels=(),
        sets={"s-1": 'rack "r"'},
        queue=queue,
        position=position,
        seconds=seconds,
    )


def queue(**more):
    return (
        local_queue("osmo/team", "cq"),
        cluster_queue("cq", ("h100", 64), **more),
        flavor("h100", {}, "floor"),
    )


def reasons(message, *objects, **more):
    return KUEUE.waiting_reasons(waiting(message, *objects, **more))


def test_a_full_quota_says_how_full_it_is_and_how_many_wait():
    (reason,) = reasons(FULL, *queue(used=72, borrowed=8, borrowing=16, waiting=5))
    assert reason.code == "QuotaExceeded"
    assert reason.message == (
        'The queue\'s quota of nvidia.com/gpu in flavor h100 is used: rack "r" needs 8 more. '
        'ClusterQueue "cq" uses 72 of its 64 nvidia.com/gpu, 8 of them borrowed, and may borrow 16. 4 other '
        "Workloads wait there; those of higher priority, then older ones, go first. One that fits may pass "
        "those that do not (BestEffortFIFO)."
    )
    assert dict(reason.facts)["used"] == "72"


def test_without_an_observed_queue_the_scheduler_s_own_words_stay():
    (reason,) = reasons(FULL)
    assert reason.message == (
        'The queue\'s quota of nvidia.com/gpu in flavor h100 is used: rack "r" needs 8 more.'
    )


UNUSABLE = {
    "resource memory unavailable in ClusterQueue": (
        'The queue has no quota for memory, which rack "r" requests.'
    ),
    "more than one flavor assigned: basic, h100": (
        'What rack "r" requests is of several flavors (basic, h100), and Kueue names nodes in one alone.'
    ),
    'Flavor "basic" does not support TopologyAwareScheduling': (
        'Flavor basic has resources that rack "r" requests and no Topology, so Kueue would name no nodes.'
    ),
}


@pytest.mark.parametrize("words", ["Workload namespace", "workload namespace"])
def test_a_queue_that_does_not_select_the_namespace_says_so(words):
    (reason,) = reasons(f"{words} doesn't match ClusterQueue selector", *queue())
    assert reason.code == "QueueUnusable"
    assert reason.message == (
        "The namespaceSelector of its ClusterQueue leaves the namespace of the task group out."
    )


@pytest.mark.parametrize("words", UNUSABLE)
def test_a_queue_that_never_admits_a_task_says_what_it_lacks(words):
    (reason,) = reasons(f"couldn't assign flavors to pod set s-1: {words}")
    assert (reason.code, reason.message) == ("QueueUnusable", UNUSABLE[words])


NO_ROOM = (
    "couldn't assign flavors to pod set s-1: topology \"floor\" doesn't allow to fit any of 4 pod(s). "
    'Total nodes: 9; excluded: affinity: 1, nodeSelector: 2, resource "nvidia.com/gpu": 2, '
    'taint "team=x:NoSchedule": 4'
)


def test_nodes_that_kueue_left_out_are_counted_with_their_cause():
    (reason,) = reasons(NO_ROOM)
    assert (reason.code, reason.raw) == ("TopologyNotSatisfied", NO_ROOM)
    assert reason.message == (
        'No domain has room for any of the 4 tasks of rack "r" at the moment. Nodes left out: 1 by node '
        "affinity, 2 by the node selector, 2 with too little free nvidia.com/gpu, 4 by taint "
        "team=x:NoSchedule."
    )


def test_a_level_that_the_topology_lacks_is_said():
    (reason,) = reasons(
        'couldn\'t assign flavors to pod set s-1: Flavor "h100" does not contain the requested level'
    )
    assert reason.message == 'The Topology of flavor h100 lacks the level that rack "r" names.'
    assert reason.code == "QueueUnusable"


def test_a_kueue_that_says_nothing_for_long_may_be_down():
    assert [reason.code for reason in KUEUE.waiting_reasons(waiting("", seconds=29.0))] == ["NotConsidered"]
    (reason,) = KUEUE.waiting_reasons(waiting("", seconds=45.4))
    assert reason.code == "KueueSilent"
    assert "nothing of its Workload for 45 seconds: its manager may be down" in reason.message


def test_checks_that_are_not_ready_are_named_with_their_words():
    reserved = [{"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": ""}]
    checks = [
        {"name": "budget", "state": "Pending", "message": "waits for ann"},
        {"name": "images", "state": "Ready", "message": "pulled"},
    ]
    (reason,) = KUEUE.waiting_reasons(waiting("", conditions=reserved, admissionChecks=checks))
    assert reason.message == ('Kueue has reserved room and waits for admission check "budget". waits for ann')


def test_a_stopped_queue_is_the_reason_whatever_kueue_said_before():
    (reason,) = reasons(FULL, *queue(stop="Hold"))
    assert (reason.code, "stopPolicy Hold" in reason.message) == ("QueueUnusable", True)


def test_a_workload_that_was_not_considered_says_who_else_waits():
    (reason,) = reasons("", *queue(waiting=2))
    assert reason.message.startswith("Kueue has not considered it yet. 1 other Workload waits there")


@pytest.mark.parametrize(
    ("position", "want"),
    [
        (QueuePosition(before=2, behind=2), "It is number 3 of 5."),
        (QueuePosition(before=0, behind=4), "It is number 1 of 5."),
        (QueuePosition(before=1, behind=0), "It is number 2 to 5 of 5: the place of 3 is not known."),
        (QueuePosition(before=3, behind=2), "At the moment 3 are before it."),
    ],
)
def test_a_workload_that_waits_says_its_number_as_far_as_it_is_known(position, want):
    (reason,) = reasons(FULL, *queue(waiting=5), position=position)
    assert f"go first. {want} One that fits may pass" in reason.message


def test_a_strict_queue_says_that_nothing_passes_the_first():
    (reason,) = reasons(FULL, *queue(waiting=5, strategy="StrictFIFO"))
    assert reason.message.endswith("Nothing passes the first one (StrictFIFO).")


def test_all_local_queues_of_a_cluster_queue_are_its_entries():
    objects = readings(*queue(), local_queue("lab/mine", "cq"), local_queue("lab/other", "another"))
    joined = KUEUE.joined_queue("osmo", "team", selector={}, objects=objects)
    assert joined.usage.entries == {"osmo/team", "lab/mine"}


def gang(priority=0, since="2026-11-23T12:00:00Z"):
    return QueuedGang(priority=priority, since=since)


def test_priority_counts_before_time_and_equal_seconds_have_no_order():
    others = {
        "higher, younger": (gang(1, "2026-11-23T13:00:00Z"), (1, 0)),
        "lower, older": (gang(-1, "2026-11-23T11:00:00Z"), (0, 1)),
        "equal, older": (gang(0, "2026-11-23T11:59:59Z"), (1, 0)),
        "equal, younger": (gang(0, "2026-11-23T12:00:01Z"), (0, 1)),
        "same second": (gang(), (0, 0)),
        "time not known": (gang(0, ""), (0, 0)),
        "higher, time not known": (gang(1, ""), (1, 0)),
    }
    for phrase, (other, (before, behind)) in others.items():
        assert position_of(gang(), [other]) == QueuePosition(before=before, behind=behind), phrase


CREATED = "2026-11-23T12:00:00Z"


def workload(*conditions, **spec):
    lines = [{"type": kind, "status": status, "reason": reason} for kind, status, reason in conditions]
    return {"spec": {"priority": 7, **spec}, "status": {"conditions": lines}}


@pytest.mark.parametrize(
    ("phrase", "manifest", "want"),
    [
        ("new", {"spec": {}, "status": {}}, gang()),
        ("pending", workload(("QuotaReserved", "False", "Pending")), gang(7)),
        ("preempted", workload(("Evicted", "True", "Preempted")), gang(7)),
        ("not ready in time", workload(("Evicted", "True", "PodsReadyTimeout")), gang(7, "")),
        ("refused by a check", workload(("Evicted", "True", "AdmissionCheck")), gang(7, "")),
        ("has quota", workload(("QuotaReserved", "True", "QuotaReserved")), None),
        ("finished", workload(("Finished", "True", "Done")), None),
        ("switched off", workload(active=False), None),
    ],
)
def test_a_workload_waits_in_the_order_of_its_creation(phrase, manifest, want):
    assert KUEUE.queued(manifest, created=CREATED) == want, phrase
