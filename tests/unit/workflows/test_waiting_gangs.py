"""The memory of gangs of others that wait: what it holds, what it passes over, and what of it is news."""

import json
from itertools import count
from random import Random

import pytest

from scheduling.backends.registry import installed
from workflows.observer import waiting_gangs
from workflows.observer.waiting_gangs import PODS, GangsState, WaitingGangs

KAI, KUBERNETES, KUEUE = (installed()[name] for name in ("kai", "kubernetes", "kueue"))
GROUP, (PLAIN, COMPOSITE), (WORKLOAD,) = KAI.foreign.kinds[0], KUBERNETES.foreign.kinds, KUEUE.foreign.kinds
KINDS = {"kai": [GROUP], "kubernetes": [PLAIN, COMPOSITE], "kueue": [WORKLOAD]}
LISTED = {GROUP.crd: "", WORKLOAD.crd: ""}


def kai_pod(name, gang="g", *, gpu="8", **metadata):
    container = {"resources": {"requests": {"nvidia.com/gpu": gpu}}}
    annotations = {"pod-group-name": gang} if gang else {}
    metadata = {"name": name, "uid": name, "namespace": "n", "annotations": annotations, **metadata}
    return {"metadata": metadata, "spec": {"containers": [container]}}


def plain_pod(name, gang="g"):
    return {
        "metadata": {"name": name, "uid": name, "namespace": "n"},
        "spec": {"schedulingGroup": {"podGroupName": gang}},
    }


def obj(name="g", *, uid="u1", status=None, **spec):
    metadata = {"name": name, "uid": uid, "namespace": "n", "creationTimestamp": "2026-11-30T00:00:00Z"}
    return {"metadata": metadata, "spec": {"queue": "q", **spec}, "status": status or {}}


class Followed:
    """A cluster as its streams bring it."""

    def __init__(self, *schedulers, recorded=()):
        self.gangs = WaitingGangs([installed()[name] for name in schedulers], recorded)
        self._schedulers = schedulers

    def list_pods(self, *pods):
        self.gangs.pods_listed(map(self.gangs.see_pod, pods))

    def list_objects(self, kind, *objects):
        seen = [self.gangs.see_object(kind, each) for each in objects]
        self.gangs.objects_listed(kind.crd, [each for each in seen if each])

    def pods(self, *pods):
        for each in pods:
            self.gangs.pod_changed(self.gangs.see_pod(each))

    def end(self, *pods):
        for each in pods:
            self.gangs.pod_deleted(self.gangs.see_pod(each))

    def change(self, kind, each):
        if reduced := self.gangs.see_object(kind, each):
            self.gangs.object_changed(reduced)

    def listed(self, *pods, **objects):
        """Everything is listed: ``objects`` by scheduler, the first kind of it."""
        self.list_pods(*pods)
        for scheduler in self._schedulers:
            first, *others = KINDS[scheduler]
            self.list_objects(first, *objects.get(scheduler, ()))
            for kind in others:
                self.list_objects(kind)
        return self

    def news(self):
        """By name: how many pods wait, and whether the gang's object is there; None for one that ended."""
        self.changes = self.gangs.take(most=10_000)
        return {
            key[2]: gang and (sum(pods.count for pods in gang.pods), gang.obj is not None)
            for key, gang in self.changes.gangs.items()
        }

    def gang(self, name="g"):
        self.news()
        return next(gang for key, gang in self.changes.gangs.items() if key[2] == name)


def test_pods_are_grouped_by_gang_with_the_object_that_they_name():
    followed = Followed("kai").listed(kai_pod("a"), kai_pod("b"), kai_pod("c", "other"), kai=[obj()])
    assert followed.gangs.unread(GROUP.crd, most=9) == [(GROUP.crd, "n", "other")]
    followed.gangs.answered((GROUP.crd, "n", "other"), None)
    assert followed.news() == {"g": (2, True), "other": (1, False)}
    assert followed.news() == {}
    followed.pods(kai_pod("a"))
    assert followed.news() == {}, "nothing has changed"
    followed.end(kai_pod("a"))
    assert followed.news() == {"g": (1, True)}
    followed.end(kai_pod("b"), kai_pod("never seen", "unknown"))
    assert followed.news() == {"g": None}


def test_of_objects_and_pods_that_do_not_wait_nothing_is_held():
    followed = Followed("kai").listed(kai_pod("in no gang", ""), kai=[obj(f"o{n}") for n in range(100)])
    followed.pods(kai_pod("ending", "e", deletionTimestamp="2026-11-30T00:00:00Z"))
    followed.change(GROUP, obj("new"))
    assert followed.news() == {}
    gangs = followed.gangs
    assert not any((gangs._objects, gangs._members, gangs._needed, gangs._unread, gangs._shared))


def test_an_object_goes_with_the_last_pod_that_names_it():
    followed = Followed("kai").listed(kai_pod("a"), kai=[obj()])
    followed.news()
    followed.end(kai_pod("a"))
    followed.news()
    assert (followed.gangs._objects, followed.gangs._shared, followed.gangs._bytes) == ({}, {}, 0)


def test_alike_pods_are_one_object_in_memory():
    followed = Followed("kai").listed(*(kai_pod(f"p{n}") for n in range(50)), kai=[obj()])
    terms = {id(pod.terms) for pod in followed.gangs._members[GROUP.crd, "n", "g"].pods.values()}
    assert len(terms) == 1
    (pods,) = followed.gang().pods
    assert pods.count == 50


def test_nothing_is_news_before_everything_was_listed():
    """What is absent from half a list is not known to be absent."""
    followed = Followed("kubernetes", recorded=[(PLAIN.crd, "n", "recorded")])
    followed.list_pods(plain_pod("a"))
    followed.list_objects(PLAIN, obj())
    assert (followed.news(), followed.changes.state) == ({}, None)
    followed.list_objects(COMPOSITE)
    assert followed.news() == {"g": (1, True), "recorded": None}
    assert followed.changes.state == GangsState({PLAIN.crd: ""}, omitted=0)


def test_a_gang_whose_object_was_passed_over_waits_until_it_is_read():
    followed = Followed("kai").listed(kai=[obj()])
    followed.pods(kai_pod("a"))
    assert followed.news() == {}
    (key,) = followed.gangs.unread(GROUP.crd, most=9)
    assert followed.news() == {}
    followed.gangs.answered(key, followed.gangs.see_object(GROUP, obj()))
    assert followed.news() == {"g": (1, True)}


@pytest.mark.parametrize(
    "name",
    [".", "..", "%2e", "a/../b", "A", "a b", "x" * 254, "\x1b[31m", "é"],
    ids=lambda name: repr(name)[:12],
)
def test_a_name_that_no_object_can_have_is_never_read_and_fits_a_row_and_a_path(name):
    followed = Followed("kai").listed(kai_pod("a", name))
    followed.list_objects(GROUP)
    assert followed.gangs.unread(GROUP.crd, most=9) == []
    ((row, state),) = followed.news().items()
    assert state == (1, False)
    assert row not in {".", ".."}
    assert "/" not in row
    assert row.isprintable()
    assert len(row) <= 253


def test_what_was_unread_when_a_list_began_and_is_not_in_it_is_absent():
    followed = Followed("kai").listed(kai_pod("a", "absent"), kai_pod("b", "there"))
    followed.gangs.list_begins(GROUP.crd)
    followed.pods(kai_pod("c", "late"))
    followed.list_objects(GROUP, obj("there"))
    assert followed.gangs.unread(GROUP.crd, most=9) == [(GROUP.crd, "n", "late")]
    assert followed.news() == {"absent": (1, False), "there": (1, True)}


def test_what_is_needed_anew_after_a_list_began_may_have_been_passed_over_by_it():
    followed = Followed("kai").listed(kai_pod("a", "again"))
    followed.gangs.list_begins(GROUP.crd)
    followed.end(kai_pod("a", "again"))
    followed.news()
    followed.pods(kai_pod("a", "again"))
    followed.list_objects(GROUP)
    assert followed.gangs.unread(GROUP.crd, most=9) == [(GROUP.crd, "n", "again")]


def test_the_word_of_the_watch_goes_over_that_of_a_read_that_it_overtook():
    followed = Followed("kai").listed()
    followed.pods(kai_pod("a"), kai_pod("b", "deleted"))
    read = {key[2]: key for key in followed.gangs.unread(GROUP.crd, most=9)}
    old = {name: followed.gangs.see_object(GROUP, obj(name, uid="old")) for name in read}
    followed.change(GROUP, obj(uid="new"))
    followed.gangs.object_deleted(read["deleted"])
    for name, key in read.items():
        followed.gangs.answered(key, old[name])
    assert followed.news() == {"g": (1, True), "deleted": (1, False)}
    assert followed.changes.gangs[read["g"]].uid == "new"


def test_a_read_that_failed_is_tried_again():
    followed = Followed("kai").listed()
    followed.pods(kai_pod("a"))
    keys = followed.gangs.unread(GROUP.crd, most=9)
    assert followed.gangs.unread(GROUP.crd, most=9) == []
    followed.gangs.unanswered(keys)
    assert followed.gangs.unread(GROUP.crd, most=9) == keys


def test_a_list_replaces_what_was_there():
    followed = Followed("kai").listed(kai_pod("a"), kai_pod("b", "other"), kai=[obj(), obj("other")])
    followed.news()
    followed.list_pods(kai_pod("a"), kai_pod("c", "third"))
    followed.list_objects(GROUP, obj(uid="u2"), obj("third"))
    assert followed.news() == {"g": (1, True), "other": None, "third": (1, True)}


def test_a_group_that_is_created_anew_replaces_the_one_before():
    followed = Followed("kai").listed(kai_pod("a"), kai=[obj()])
    assert followed.gang().uid == "u1"
    followed.gangs.object_deleted((GROUP.crd, "n", "g"))
    assert followed.news() == {"g": (1, False)}
    followed.change(GROUP, obj(uid="u2"))
    assert followed.gang().uid == "u2"


def test_an_object_that_is_being_deleted_is_no_gang_any_more():
    followed = Followed("kai").listed(kai_pod("a"), kai=[obj()])
    followed.news()
    ending = obj()
    ending["metadata"]["deletionTimestamp"] = "2026-11-30T00:00:00Z"
    followed.change(GROUP, ending)
    assert followed.news() == {"g": None}


def test_a_workload_is_a_gang_while_it_waits():
    followed = Followed("kueue").listed(kueue=[obj()])
    assert followed.news() == {"g": (0, True)}
    admitted = {"conditions": [{"type": "Admitted", "status": "True"}]}
    followed.change(WORKLOAD, obj(status=admitted))
    assert followed.news() == {"g": None}
    followed.change(WORKLOAD, obj())
    followed.gangs.object_deleted((WORKLOAD.crd, "n", "g"))
    assert followed.news() == {"g": None}


def composite(name, above=""):
    parent = {"parentCompositePodGroupName": above} if above else {}
    return obj(name, **parent)


def test_a_change_above_a_group_is_news_of_it():
    followed = Followed("kubernetes")
    followed.list_pods(plain_pod("a"))
    followed.list_objects(PLAIN, composite("g", "top"))
    followed.list_objects(COMPOSITE, composite("top"), composite("elsewhere"))
    assert [each is not None for each in followed.gang().above] == [True]
    followed.change(COMPOSITE, composite("top", "root"))
    (key,) = followed.gangs.unread(COMPOSITE.crd, most=9)
    followed.gangs.answered(key, None)
    assert [each is not None for each in followed.gang().above] == [True, False]


def test_a_loop_ends_and_goes_with_its_gang():
    followed = Followed("kubernetes")
    followed.list_pods(plain_pod("a"))
    followed.list_objects(PLAIN, composite("g", "x"))
    followed.list_objects(COMPOSITE, composite("x", "y"), composite("y", "x"))
    for key in followed.gangs.unread(COMPOSITE.crd, most=9):
        followed.gangs.answered(key, followed.gangs.see_object(COMPOSITE, composite("y", "x")))
    assert len(followed.gang().above) == 2
    followed.end(plain_pod("a"))
    assert followed.news() == {"g": None}
    assert followed.gangs._objects == {}


def test_what_is_refused_is_forgotten_and_comes_back_with_a_list():
    followed = Followed("kai", "kueue").listed(kai_pod("a"), kai=[obj()], kueue=[obj("w")])
    followed.news()
    followed.gangs.refused(GROUP.crd, "podgroups is forbidden")
    assert followed.news() == {"g": None}
    assert followed.changes.state == GangsState(LISTED | {GROUP.crd: "podgroups is forbidden"}, 0)
    followed.pods(kai_pod("b"))
    assert followed.news() == {"g": None}
    followed.gangs.refused(PODS, "pods is forbidden")
    assert followed.news() == {"g": None}
    assert followed.changes.state.problems[GROUP.crd] == "pods is forbidden podgroups is forbidden"
    followed.listed(kai_pod("a"), kai=[obj()], kueue=[obj("w")])
    assert followed.news() == {"g": (1, True)}
    assert followed.changes.state == GangsState(LISTED, 0)


def test_news_that_could_not_be_written_are_news_again():
    followed = Followed("kai").listed(kai_pod("a"), kai=[obj()])
    followed.news()
    followed.gangs.put_back(followed.changes)
    assert followed.news() == {"g": (1, True)}
    assert followed.changes.state is not None


def test_the_state_comes_with_the_last_of_the_news():
    followed = Followed("kueue").listed(kueue=[obj(f"g{n}") for n in range(3)])
    first, last = followed.gangs.take(most=2), followed.gangs.take(most=2)
    assert [(len(each.gangs), each.state is not None) for each in (first, last)] == [(2, False), (1, True)]


# Bounds


def test_gangs_beyond_the_bound_are_counted_and_come_in_as_others_go(monkeypatch):
    monkeypatch.setattr(waiting_gangs, "MOST_GANGS", 2)
    pods = {name: kai_pod(name, name) for name in ("a", "b", "c", "d")}
    followed = Followed("kai", "kueue").listed(*pods.values(), kueue=[obj("w")])
    for key in followed.gangs.unread(GROUP.crd, most=9):
        followed.gangs.answered(key, None)
    assert followed.news().keys() == {"a", "b"}
    assert followed.changes.state.omitted == 3
    followed.end(pods["a"])
    followed.pods(pods["c"])
    assert followed.gangs.unread(GROUP.crd, most=9) == [(GROUP.crd, "n", "c")]
    followed.listed(pods["c"], kueue=[obj("w")])
    for key in followed.gangs.unread(GROUP.crd, most=9):
        followed.gangs.answered(key, None)
    assert followed.news() == {"a": None, "b": None, "c": (1, False), "w": (0, True)}
    assert followed.changes.state.omitted == 0


def test_pods_beyond_the_bound_are_counted_in_their_gang(monkeypatch):
    monkeypatch.setattr(waiting_gangs, "MOST_PODS", 2)
    pods = [kai_pod(f"p{n}") for n in range(5)]
    followed = Followed("kai").listed(*pods, kai=[obj()])
    gang = followed.gang()
    assert (gang.pods[0].count, gang.omitted) == (2, 3)
    followed.pods(pods[4])
    followed.end(pods[4])
    assert followed.gang().omitted == 2


def test_a_gang_has_at_most_its_bytes_and_says_how_many_pods_are_left_out():
    pods = [kai_pod(f"p{n}", gpu=str(n), labels={}) for n in range(2000)]
    gang = Followed("kai").listed(*pods, kai=[obj()]).gang()
    assert len(json.dumps(gang.to_json()).encode()) <= 1.2 * waiting_gangs.MOST_GANG_BYTES
    assert sum(each.count for each in gang.pods) + gang.omitted == 2000
    assert 0 < gang.omitted < 2000


def test_memory_of_pods_that_all_differ_is_bounded(monkeypatch):
    monkeypatch.setattr(waiting_gangs, "MOST_BYTES", 1000)
    pods = [kai_pod(f"p{n}", gpu=str(n + 1)) for n in range(100)]
    followed = Followed("kai").listed(*pods, kai=[obj()])
    assert followed.gangs._bytes <= 1000 + waiting_gangs.written.MOST_BYTES
    followed.end(*pods)
    assert followed.news() == {"g": None}
    assert followed.gangs._bytes == 0


@pytest.mark.parametrize("seed", range(20))
def test_after_any_changes_it_is_as_after_a_list(seed):
    chance, numbers = Random(seed), count()
    followed, pods, groups = Followed("kai").listed(), {}, {}
    shadow: dict = {}
    for _ in range(200):
        name = f"g{chance.randrange(6)}"
        match chance.randrange(5):
            case 0 | 1:
                pods[pod := f"p{next(numbers)}"] = name
                followed.pods(kai_pod(pod, name))
            case 2 if pods:
                pod = chance.choice(list(pods))
                followed.end(kai_pod(pod, pods.pop(pod)))
            case 3:
                groups[name] = str(next(numbers))
                followed.change(GROUP, obj(name, uid=groups[name]))
            case 4 if groups:
                gone = chance.choice(list(groups))
                del groups[gone]
                followed.gangs.object_deleted((GROUP.crd, "n", gone))
        if chance.random() < 0.3:
            shadow |= followed.news()
        if chance.random() < 0.5:
            for key in followed.gangs.unread(GROUP.crd, most=2):
                uid = groups.get(key[2])
                read = followed.gangs.see_object(GROUP, obj(key[2], uid=uid)) if uid else None
                followed.gangs.answered(key, read)
    for key in followed.gangs.unread(GROUP.crd, most=99):
        uid = groups.get(key[2])
        followed.gangs.answered(key, uid and followed.gangs.see_object(GROUP, obj(key[2], uid=uid)))
    shadow |= followed.news()
    want = {name: (list(pods.values()).count(name), name in groups) for name in {*pods.values()}}
    assert {name: gang for name, gang in shadow.items() if gang} == want
