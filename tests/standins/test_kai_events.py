"""Which of KAI's events arrive, and what else tells of an eviction; named after upstream's files."""

import dataclasses
import datetime as dt

import pytest

from localcluster.standins.kai import reader
from localcluster.standins.kai.broadcast import QUEUE, Filter
from localcluster.standins.kai.values import Event, Eviction, EvictionMark
from localcluster.standins.kai.versions import VERSIONS
from localcluster.standins.kai.writer import Answers, Writer
from tests.standins.worlds import after, group, pod, pods, reasons, run, two_halves, world


class Clock:
    """A clock that a test moves on."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def events(clock):
    return Filter(clock)


def about(text, *, reason="Unschedulable", kind="PodGroup", uid="u", level="Normal", **annotations):
    return Event(kind, "ns", "g", uid, level, reason, text, annotations)


def evict(name):
    return about(f"Pod ns/{name} was preempted", reason="Evict", action="preempt")


def wait(events, clock, seconds, *, step=0.5, text="no room"):
    """A gang waits for so long, with a cycle of the stand-in at each step."""
    passed = []
    for _ in range(int(seconds / step)):
        passed += events.cycle([about(text)])
        clock.now += step
    return passed


def test_events_cache_go_eight_evictions_after_forty_seconds_of_waiting_leave_no_event(events, clock):
    """Seen on running v0.13 and v0.17."""
    assert [event.message for event in wait(events, clock, 40)] == ["no room"]
    events.cycle([])
    clock.now += 30

    assert [events.once(evict(f"p{number}")) for number in range(8)] == [None] * 8


def test_events_cache_go_a_gang_that_never_waited_gets_its_events(events):
    sent = [events.once(evict(f"p{number}")) for number in range(8)]

    assert [event.annotations["action"] for event in sent] == ["preempt"] * 8


def test_events_cache_go_waiting_uses_up_one_event_a_second_however_often_the_stand_in_looks(events, clock):
    wait(events, clock, 20, step=0.25)
    events.cycle([])

    assert [bool(events.once(evict(f"p{n}"))) for n in range(6)] == [True] * 4 + [False] * 2


def test_events_cache_go_a_stand_in_that_sleeps_while_nothing_changes_counts_the_cycles_of_that_time(
    events, clock
):
    events.cycle([about("no room")])
    clock.now += 60

    assert events.cycle([about("another reason")]) == []
    clock.now += 300
    events.cycle([])
    assert events.once(evict("p0")) is None, "what comes back is used up by waiting"


def test_events_cache_go_one_more_after_five_minutes(events, clock):
    wait(events, clock, 40)
    events.cycle([])
    clock.now += 301

    assert [bool(events.once(evict(f"p{n}"))) for n in range(2)] == [True, False]


def test_events_cache_go_other_objects_and_types_have_limits_of_their_own(events, clock):
    wait(events, clock, 40)

    assert events.once(about("Failed", reason="FailedBinding", level="Warning"))
    assert events.once(dataclasses.replace(evict("p0"), uid="other"))
    assert events.once(dataclasses.replace(evict("p0"), kind="Pod"))


def test_events_cache_go_from_the_tenth_similar_event_on_one_stands_for_all(events):
    sent = [events.once(evict(f"p{number}")) for number in range(12)]

    assert [event.message for event in sent[:9]] == [f"Pod ns/p{n} was preempted" for n in range(9)]
    assert [event.message for event in sent[9:]] == [
        f"(combined from similar events): Pod ns/p{n} was preempted" for n in (9, 10, 11)
    ]
    assert [event.annotations for event in sent[9:]] == [{}] * 3


def test_a_filter_without_limits_lets_every_new_text_through(clock):
    events = Filter(clock, limited=False)
    wait(events, clock, 60)

    assert all(events.once(evict(f"p{number}")) for number in range(40))


class Api:
    """Takes every write and keeps it."""

    def __init__(self):
        self.writes = []

    def patch(self, path, body, *, content_type=None):
        self.writes.append(("patch", path, body))
        return body

    def delete(self, path, *, body=None):
        self.writes.append(("delete", path, body))

    def create(self, path, body):
        self.writes.append(("create", path, body))


def writer(**settings):
    api = Api()
    return api, Writer(api, Answers(pod=list, group=list, claim=list, queue=list), **settings)


def test_event_go_more_than_a_thousand_that_wait_are_dropped():
    _, full = writer()

    full.report(dataclasses.replace(about("no room"), uid=f"u{number}") for number in range(QUEUE + 5))

    assert full._events.qsize() == QUEUE


@pytest.mark.parametrize("switched_on", [False, True])
def test_options_go_the_condition_of_an_evicted_pod_is_off_by_default(switched_on):
    """Seen on running v0.13 and v0.17, with and without ``--update-pod-eviction-condition``."""
    api, evicting = writer(evictions_on_pods=switched_on)
    text = "Pod ns/p was preempted by higher priority workload ns/high"

    assert evicting.evict([Eviction(pod("p"), group(), text, {"evictor-action-type": "preempt"})]) == []

    conditions = [body["status"]["conditions"][0] for verb, _, body in api.writes if verb == "patch"]
    assert [verb for verb, _, _ in api.writes] == ([*["patch"] * switched_on, "delete"])
    seen = [(each["type"], each["status"], each["reason"], each["message"]) for each in conditions]
    assert seen == [("DisruptionTarget", "True", "PreemptionByScheduler", text)] * switched_on


@pytest.mark.parametrize("version", VERSIONS)
def test_podgroup_types_go_an_evicted_group_is_marked_with_the_time(version):
    decisions = run(two_halves(), version=version)

    marks = [(mark.group.name, mark.at) for mark in decisions.eviction_marks]
    assert marks == ([("y", 1_000_000.0)] if version.startswith("0.17") else [])


def test_podgroup_types_go_a_stale_gang_is_not_marked():
    members = tuple(dataclasses.replace(each, state="active", node="n1") for each in pods(2))
    snapshot = world("a/r1: n1", gpus=8, groups=(group(min_member=3),), pods=members)
    later = run(after(snapshot, run(snapshot, version="0.17"), seconds=61), version="0.17")

    assert len(later.evictions) == 2
    assert later.eviction_marks == ()


def test_the_mark_is_an_annotation_of_the_group():
    api, noting = writer()

    assert noting.note([], [EvictionMark(group(), 0.0)], [], [], [])

    ((_, path, body),) = api.writes
    assert path.endswith("/namespaces/ns/podgroups/g")
    assert body["metadata"]["annotations"] == {
        "kai.scheduler/last-eviction-timestamp": "1970-01-01T00:00:00Z"
    }


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("seconds", [0, 119, 121])
def test_pod_info_go_a_pod_long_past_its_deletion_is_not_waited_for(version, seconds):
    """StuckInReleasing (v0.15): its room counts as taken, so nobody is pipelined onto it."""
    snapshot = world(
        "a/r1: n1",
        groups=(group(min_member=1),),
        pods=(pod("old", group="old", state="releasing", node="n1"), pod("p")),
    )
    ended = dataclasses.replace(snapshot.pods[0], deleted_at=snapshot.now - seconds)

    decisions = run(dataclasses.replace(snapshot, pods=(ended, snapshot.pods[1])), version=version)

    stuck = VERSIONS[version].gives_up_ending and seconds > 120
    assert ("Pipelined" in reasons(decisions)) is not stuck
    assert bool(decisions.group_conditions) is stuck
    due = snapshot.now - seconds + 120
    assert decisions.wake_at == (due if VERSIONS[version].gives_up_ending and not stuck else None)


def test_the_time_of_a_deletion_is_read():
    body = {
        "metadata": {
            "namespace": "ns",
            "name": "p",
            "uid": "u",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "deletionTimestamp": "2026-01-01T00:01:00Z",
        },
        "spec": {"nodeName": "n1", "containers": []},
    }

    read = reader.pod(body)

    want = dt.datetime(2026, 1, 1, 0, 1, tzinfo=dt.UTC).timestamp()
    assert (read.state, read.deleted_at) == ("releasing", want)
