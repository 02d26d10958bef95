"""What the fault harness calls backwards, unsafe and missing; a checker that finds nothing proves nothing."""

import itertools
from random import Random

import pytest

from chaos import attempts
from chaos import submissions as submissions_of
from chaos.monitor import ADMITTING, Life, Monitor, _note
from chaos.proxy import KINDS, READS, WATCHES, WRITES, Weather
from chaos.statuslog import Move, backwards
from chaos.storm import Sequence
from chaos.submissions import SubmittedWorkflow
from chaos.workload import Submission, submissions

GROUP = "workflows_taskgroup"


def move(before, after, *, relation=GROUP, released=False):
    return Move(relation, "one", before, after, released)


@pytest.mark.parametrize(
    "wrong",
    [
        move("RUNNING", "SCHEDULING"),
        move("COMPLETED", "RUNNING"),
        move("FAILED", "FAILED_CANCELED"),
        move("RUNNING", None),
        move("COMPLETED", "COMPLETED", released=True),
        move("RUNNING", "PENDING", relation="workflows_workflow"),
    ],
    ids=str,
)
def test_a_move_that_must_never_be_is_found(wrong):
    assert list(backwards([wrong])) == [wrong]


def test_moves_that_may_be_are_not_found():
    steps = (None, "SUBMITTING", "PROCESSING", "SCHEDULING", "RUNNING", "COMPLETED")
    life = [move(a, b) for a, b in itertools.pairwise(steps)]
    assert list(backwards([*life, move("COMPLETED", "COMPLETED")])) == []


def test_a_compute_domain_that_ends_under_a_pod_is_found_unless_the_harness_did_it():
    monitor = Monitor(plane=None)
    pod, domain = {"uid": "p", "name": "pod"}, {"uid": "d", "name": "domain"}
    seen(monitor.pods, "ADDED", pod, 5)
    seen(monitor.domains, "ADDED", domain, 4)
    seen(monitor.domains, "MODIFIED", domain | {"deletionTimestamp": "now"}, 9)
    seen(monitor.pods, "DELETED", pod, 12)
    assert list(monitor.violations()) == ["ComputeDomain domain was deleted while pod were there"]
    monitor.spared.add("d")
    assert list(monitor.violations()) == []


def test_a_compute_domain_that_ends_after_the_last_pod_is_well():
    monitor = Monitor(plane=None)
    pod, domain = {"uid": "p", "name": "pod"}, {"uid": "d", "name": "domain"}
    seen(monitor.pods, "ADDED", pod, 5)
    seen(monitor.domains, "ADDED", domain, 4)
    seen(monitor.pods, "DELETED", pod, 8)
    seen(monitor.domains, "DELETED", domain, 9)
    assert list(monitor.violations()) == []


def test_a_monitor_that_judged_nothing_proves_nothing():
    monitor = Monitor(plane=None)
    seen(monitor.domains, "ADDED", {"uid": "d", "name": "domain"}, 4)
    seen(monitor.domains, "MODIFIED", {"uid": "d", "name": "domain", "deletionTimestamp": "now"}, 9)
    monitor.domains["d"].in_a_list = True
    assert list(monitor.violations()) == []
    assert (monitor.judged, monitor.not_judged) == (0, 1)
    assert monitor.blind() == ["an end of a ComputeDomain that could be judged", "an admission by Kueue"]
    monitor.domains["d"].in_a_list = False
    admit(monitor, 5, event="LISTED")
    assert list(monitor.violations()) == []
    assert monitor.blind() == ["an admission by Kueue"]
    monitor.workloads.clear()
    admit(monitor, 5)
    assert monitor.blind() == []


@pytest.mark.parametrize(
    ("admitted", "event", "unadmitted"),
    [(6, "MODIFIED", []), (8, "MODIFIED", ["pod pod came before its group was admitted"]), (8, "LISTED", [])],
)
def test_a_pod_on_kueue_that_comes_before_its_group_is_admitted_is_found(admitted, event, unadmitted):
    monitor = Monitor(plane=None)
    seen(monitor.workloads, "ADDED", {"uid": "w", "name": "w", "namespace": ADMITTING}, 4)
    seen(monitor.pods, "ADDED", {"uid": "p", "name": "pod", "namespace": ADMITTING}, 7)
    admit(monitor, admitted, event=event)
    assert list(monitor.unadmitted()) == unadmitted


def test_a_pod_on_kueue_whose_group_is_never_admitted_is_found_and_none_of_another_scheduler():
    monitor = Monitor(plane=None)
    for namespace in (ADMITTING, "osmo-kai"):
        seen(monitor.pods, "ADDED", {"uid": namespace, "name": namespace, "namespace": namespace}, 7)
    assert list(monitor.unadmitted()) == [f"pod {ADMITTING} came before its group was admitted"]


def test_a_monitor_that_broke_down_is_told():
    monitor = Monitor(plane=None)  # which has no access to give
    monitor.judged = 1
    admit(monitor, 5)
    with pytest.raises(AttributeError):
        monitor._follow("pod")
    (gap,) = monitor.blind()
    assert gap.startswith("the monitor of pods to the end: AttributeError")


def seen(lives, event, metadata, version, *, phase="Running"):
    labels = {"osmo.nvidia.com/task-group": "g"}
    metadata = {"namespace": "osmo"} | metadata | {"resourceVersion": str(version), "labels": labels}
    _note(lives, event, {"metadata": metadata, "status": {"phase": phase}})


def admit(monitor, version, *, event="MODIFIED"):
    """Let Kueue admit the group's Workload."""
    labels = {"osmo.nvidia.com/task-group": "g"}
    metadata = {"uid": "w", "name": "w", "namespace": ADMITTING, "resourceVersion": str(version)}
    conditions = [{"type": "Admitted", "status": "True"}]
    _note(
        monitor.workloads,
        event,
        {"metadata": metadata | {"labels": labels}, "status": {"conditions": conditions}},
    )


ATTEMPTS = {"first": 1, "peer": 1, "second": 2}


def life(name, came, *, went=None, stopped=None, task=""):
    return Life(group="g", name=name, came=came, went=went, stopped=stopped, task=task)


def test_two_attempts_with_pods_at_once_are_found():
    pods = [life("first", 1, went=5), life("peer", 2, went=9), life("second", 7), life("unknown", 3)]
    (line,) = attempts.overlapping(pods, ATTEMPTS)
    assert line == "pods of attempt 2 of group g were there with peer of attempt 1"


def test_attempts_one_after_another_are_well():
    pods = [life("first", 1, went=5), life("peer", 2, went=6), life("second", 7, went=9), life("first", 9)]
    assert list(attempts.overlapping(pods, ATTEMPTS)) == []


@pytest.mark.parametrize(
    ("before", "count"), [({}, 1), ({"went": 8}, 1), ({"went": 6}, 0), ({"stopped": 6}, 0)], ids=str
)
def test_two_pods_of_a_task_whose_containers_live_at_once_are_found(before, count):
    pods = [life("first", 1, task="t", **before), life("second", 7, task="t"), life("peer", 1, task="other")]
    assert len(list(attempts.doubled(pods))) == count


def test_when_the_containers_of_a_pod_ended_is_noted():
    lives = {}
    for version, phase in ((3, "Running"), (5, "Failed"), (6, "Failed")):
        seen(lives, "MODIFIED", {"uid": "p", "name": "pod"}, version, phase=phase)
    assert (lives["p"].came, lives["p"].stopped, lives["p"].went) == (3, 5, None)


def test_every_kind_of_spoilt_request_comes_and_none_when_it_is_calm():
    weather = Weather(Random(1), strength=1.0)
    for rates in (READS, WRITES, WATCHES):
        for _ in range(500):
            weather.counts[weather.strike(rates)] += 1
    assert weather.missing() == []
    assert set(KINDS) <= set(weather.counts)
    weather.strength = 0.0
    assert {weather.strike(READS) for _ in range(500)} == {""}


def test_a_seed_repeats_workflows_and_the_order_of_faults():
    first, second = (submissions(Random("7 work"), groups=20) for _ in range(2))
    assert [line.text for line in first] == [line.text for line in second]
    orders = [Sequence(Random(7), {"a": 1, "b": 2, "c": 3}) for _ in range(2)]
    assert [orders[0].next() for _ in range(9)] == [orders[1].next() for _ in range(9)]


def sent(key="k1", *replies, **changes):
    return Submission(
        **{"key": key, "pool": "p", "groups": 1, "text": "", "replies": set(replies), **changes}
    )


def row(name="train-1", key="k1", **changes):
    return SubmittedWorkflow(**{"user": "ann", "pool": "p", **changes}, name=name, key=key)


@pytest.mark.parametrize(
    ("work", "rows", "lost", "doubled"),
    {
        "accepted once": ([sent("k1", "train-1")], [row()], 0, 0),
        "never answered, and there": ([sent()], [row()], 0, 0),
        "never answered, and not there": ([sent()], [], 0, 0),
        "lost": ([sent("k1", "train-1")], [], 1, 0),
        "made twice": ([sent("k1", "train-1", "train-2")], [row(), row("train-2", key="")], 0, 2),
        "refused, and there": ([sent(refused=422)], [row()], 0, 1),
        "two that got one": ([sent("k1", "train-1"), sent("k2", "train-1")], [row()], 1, 0),
        "somebody else's": ([sent("k1", "train-1")], [row(user="bob")], 1, 0),
        "of another pool": ([sent("k1", "train-1")], [row(pool="q")], 1, 0),
        "sent by nobody": ([], [row()], 0, 1),
    }.values(),
)
def test_a_submitted_workflow_is_there_once(work, rows, lost, doubled):
    assert len(list(submissions_of.lost(work, rows, user="ann"))) == lost
    assert len(list(submissions_of.doubled(work, rows))) == doubled
