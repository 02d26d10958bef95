"""Gangs of others that wait, followed by the observer on a cluster in memory: real threads, real rows."""

import threading

import pytest
from django.db import DatabaseError, DataError
from django.utils import timezone

from cluster import watch
from cluster.errors import ClusterUnreachable, NotServed, RequestForbidden
from cluster.kinds import NAMESPACE, POD
from pools.clusters import connect
from pools.models import Backend, Cluster, ClusterLease
from pools.values.completeness import GANGS
from scheduling.backends.kai import KAI
from scheduling.backends.registry import installed
from tests.builders.completeness import completeness, note_lists
from tests.builders.waiting import until
from tests.fakes.kinds import COMPOSITE, KAI_POD_GROUP, WORKLOAD
from tests.worker.world import World
from workflows.models import ObservedGang, ObservedPod
from workflows.observer import cluster_observer, gang_rows, gang_streams, lease, process, waiting_gangs
from workflows.observer.process import Observer

pytestmark = pytest.mark.django_db(transaction=True)
SECONDS = 90


@pytest.fixture
def world(transactional_db, monkeypatch):
    world = World(scheduled=False)
    monkeypatch.setattr(connect, "connect", lambda *args: world.cluster)
    monkeypatch.setattr(process, "ROWS_SECONDS", 0.2)
    monkeypatch.setattr(watch, "backoff", lambda attempt, *, spread: 0.05)
    monkeypatch.setattr(gang_streams, "READ_SECONDS", 0.05)
    monkeypatch.setattr(lease, "SECONDS", 0.5)
    monkeypatch.setattr(cluster_observer, "TAKE_SECONDS", 0.05)
    monkeypatch.setattr(cluster_observer, "HOLD_SECONDS", 0.1)
    monkeypatch.setattr(cluster_observer, "GANG_SECONDS", 0.05)
    world.cluster.put(NAMESPACE, {"metadata": {"name": "theirs"}})
    world.backend = world.pool(backend={"follow_others": True}).backend
    return world


@pytest.fixture
def observer(world):
    running = Observer(most=0)
    thread = threading.Thread(target=running.run)
    thread.start()
    yield running
    running.stop()
    thread.join(SECONDS)
    assert not thread.is_alive()


def pod(name, gang="g", *, node="", gpu="8", phase="Pending"):
    container = {
        "name": "c",
        "resources": {"requests": {"nvidia.com/gpu": gpu}},
        "env": [{"name": "A", "value": "SECRET"}],
    }
    return {
        "metadata": {"name": name, "namespace": "theirs", "annotations": {"pod-group-name": gang}},
        "spec": {"schedulerName": "kai-scheduler", "containers": [container], "nodeName": node},
        "status": {"phase": phase},
    }


def group(name="g", **spec):
    return {"metadata": {"name": name, "namespace": "theirs"}, "spec": {"minMember": 2, "queue": "q", **spec}}


def rows():
    return {row.name: (row.pods, row.content["obj"] is not None) for row in ObservedGang.objects.all()}


def cluster():
    return Cluster.objects.get()


def problem():
    return completeness(KAI.foreign.kinds[0].crd).problem


def test_gangs_that_wait_have_rows_and_no_others(world, observer):
    for name in ("g", "placed", "without pods"):
        world.cluster.put(KAI_POD_GROUP, group(name))
    for name in ("a", "b"):
        world.cluster.put(POD, pod(name))
    world.cluster.put(POD, pod("c", "placed", node="n1"))
    world.cluster.put(POD, pod("d", "absent"))
    until(lambda: rows() == {"g": (2, True), "absent": (1, False)})
    until(lambda: completeness(GANGS).is_known)
    assert (problem(), cluster().gangs_omitted) == ("", 0)
    assert "SECRET" not in str(ObservedGang.objects.values_list("content"))
    world.cluster.put(KAI_POD_GROUP, group("absent"))
    until(lambda: rows()["absent"] == (1, True))
    world.cluster.put(POD, pod("a", node="n1"))
    until(lambda: rows()["g"] == (1, True))
    world.cluster.remove(POD, "b", namespace="theirs")
    world.cluster.remove(POD, "d", namespace="theirs")
    until(lambda: rows() == {})


def test_a_gang_that_begins_to_wait_is_read_once_and_followed_from_there(world, observer, monkeypatch):
    read = []
    get = world.cluster.get
    monkeypatch.setattr(
        world.cluster, "get", lambda kind, name, **where: read.append(name) or get(kind, name, **where)
    )
    world.cluster.put(KAI_POD_GROUP, group(queue="old"))
    until(lambda: completeness(GANGS).is_known)
    world.cluster.put(POD, pod("a"))
    until(lambda: queues() == ["old"])
    world.cluster.put(KAI_POD_GROUP, group(queue="new"))
    until(lambda: queues() == ["new"])
    world.cluster.remove(KAI_POD_GROUP, "g", namespace="theirs")
    until(lambda: rows() == {"g": (1, False)})
    assert read.count("g") == 1


def queues():
    return [row.content["obj"]["queue"] for row in ObservedGang.objects.exclude(content__obj=None)]


def test_more_absent_groups_than_are_read_by_name_are_found_absent_by_a_list(world, observer, monkeypatch):
    monkeypatch.setattr(waiting_gangs, "MOST_READS", 2)
    until(lambda: completeness(GANGS).is_known)
    names = [f"absent-{number}" for number in range(9)]
    for name in names:
        world.cluster.put(POD, pod(name, name))
    until(lambda: rows() == dict.fromkeys(names, (1, False)))
    world.cluster.put(KAI_POD_GROUP, group("absent-0"))
    until(lambda: rows()["absent-0"] == (1, True))


def test_a_workload_has_a_row_until_it_is_admitted(world, observer):
    world.pool(backend={"follow_others": True, "scheduler_type": "kueue"})
    world.cluster.put(WORKLOAD, group("w", podSets=[{"name": "main", "count": 4, "template": pod("t")}]))
    until(lambda: rows() == {"w": (0, True)})
    admitted = {"conditions": [{"type": "Admitted", "status": "True"}]}
    world.cluster.put(WORKLOAD, group("w") | {"status": admitted})
    until(lambda: rows() == {})


def test_our_own_gangs_are_none_of_them(world, observer):
    own = world.group(pods=2)
    world.reconcile(own)
    world.reconcile(own)
    world.cluster.put(POD, pod("a"))
    until(lambda: rows() == {"g": (1, False)})
    until(lambda: ObservedPod.objects.count() == 2)
    assert rows() == {"g": (1, False)}


@pytest.mark.parametrize("refused_kind", [POD, KAI_POD_GROUP], ids=["pods", "groups"])
def test_without_the_right_they_are_forgotten_and_all_else_is_followed(
    world, observer, monkeypatch, refused_kind
):
    world.cluster.put(KAI_POD_GROUP, group())
    world.cluster.put(POD, pod("a"))
    until(lambda: rows() == {"g": (1, True)})
    refused = {True}

    def refusing(call):
        def asked(kind, *args, namespace="", field_selector="", **more):
            if refused and kind == refused_kind and not namespace and "!=" not in field_selector:
                raise RequestForbidden(f"you may not list {kind.plural}", status=403)
            return call(kind, *args, namespace=namespace, field_selector=field_selector, **more)

        return asked

    for verb in ("scan", "watch"):
        monkeypatch.setattr(world.cluster, verb, refusing(getattr(world.cluster, verb)))
    world.cluster.cut_watches()
    until(lambda: f"may not list {refused_kind.plural}" in problem())
    until(lambda: rows() == {})
    assert not completeness(GANGS).is_known
    own = world.group(pods=1)
    world.reconcile(own)
    world.reconcile(own)
    until(ObservedPod.objects.count)
    refused.clear()
    until(lambda: rows() == {"g": (1, True)})
    until(lambda: completeness(GANGS).is_known)
    assert problem() == ""


def test_a_read_that_is_refused_names_nobody_and_is_tried_again(world, observer, monkeypatch):
    monkeypatch.setattr(gang_streams, "REFUSED_SECONDS", 0.2)
    get, refused = world.cluster.get, {True}

    def refusing(kind, name, **where):
        if refused and kind == KAI_POD_GROUP and name == "g":
            raise RequestForbidden(f'podgroups "{name}" in "theirs" are forbidden', status=403)
        return get(kind, name, **where)

    monkeypatch.setattr(world.cluster, "get", refusing)
    world.cluster.put(KAI_POD_GROUP, group())
    until(lambda: completeness(GANGS).is_known)
    world.cluster.put(POD, pod("a"))
    until(lambda: "get podgroups.scheduling.run.ai" in problem())
    assert "theirs" not in problem()
    refused.clear()
    until(lambda: rows() == {"g": (1, True)})
    until(lambda: completeness(KAI.foreign.kinds[0].crd).is_known)


def not_served(world, monkeypatch, absent, *, error=NotServed):
    scan = world.cluster.scan

    def served(kind, *args, **more):
        if kind == absent:
            raise error(f"{kind.plural} is not served", status=404)
        return scan(kind, *args, **more)

    monkeypatch.setattr(world.cluster, "scan", served)


def test_a_kind_that_is_not_served_is_named(world, monkeypatch, request):
    not_served(world, monkeypatch, KAI_POD_GROUP)
    request.getfixturevalue("observer")
    until(lambda: "podgroups is not served" in problem())


def test_without_composites_nothing_stands_above_a_group(world, monkeypatch, request):
    not_served(world, monkeypatch, COMPOSITE)
    Backend.objects.update(scheduler_type="kubernetes")
    request.getfixturevalue("observer")
    world.cluster.put(POD, pod("a") | {"spec": {"schedulingGroup": {"podGroupName": "plain"}}})
    until(lambda: rows() == {"plain": (1, False)})
    until(lambda: completeness(GANGS).is_known)


@pytest.mark.parametrize(
    "change", [{"follow_others": False}, {"deleted_at": timezone.now()}], ids=["off", "deleted"]
)
def test_they_are_forgotten_once_nobody_asks_for_them(world, observer, change):
    world.cluster.put(POD, pod("a"))
    until(lambda: rows() == {"g": (1, False)})
    until(lambda: completeness(GANGS).is_known)
    Backend.objects.update(**change)
    until(lambda: not any(key[-1] for key in observer.followers))
    until(lambda: rows() == {} and not completeness(GANGS).is_known)


def test_another_scheduler_takes_over_from_the_rows(world, observer):
    world.cluster.put(POD, pod("a"))
    until(lambda: rows() == {"g": (1, False)})
    world.cluster.put(WORKLOAD, group("w"))
    Backend.objects.update(scheduler_type="kueue")
    until(lambda: rows() == {"w": (0, True)})


def test_a_further_scheduler_is_unknown_until_its_gangs_are_listed(world, observer, monkeypatch):
    until(lambda: completeness(GANGS).is_known)
    not_served(world, monkeypatch, WORKLOAD, error=ClusterUnreachable)
    world.pool(backend={"follow_others": True, "scheduler_type": "kueue"})
    until(lambda: not completeness(GANGS).is_known)


def test_an_observer_that_lost_the_cluster_does_not_make_its_gangs_unknown(world):
    note_lists({GANGS: ""})
    before = gang_rows.gangs_of(former := lease.take(world.uid), [KAI], before=None)
    ClusterLease.objects.update(until=timezone.now())
    assert lease.take(world.uid)
    with pytest.raises(lease.ObserverLeaseLost):
        gang_rows.gangs_of(former, [KAI, installed()["kueue"]], before=before)
    assert completeness(GANGS).is_known


def test_what_vanished_while_nobody_followed_is_found_out(world, request):
    ObservedGang.objects.create(
        cluster=cluster(),
        resource=KAI.pod_group.crd,
        namespace="theirs",
        name="vanished",
        content={},
        seen_at=timezone.now(),
    )
    request.getfixturevalue("observer")
    until(lambda: rows_named() == set())


def rows_named():
    return {*ObservedGang.objects.values_list("name", flat=True)}


def test_gangs_that_cannot_be_written_hold_up_nothing_of_ours(world, observer, monkeypatch):
    def refused(cluster, changes):
        raise DatabaseError("no room for others")

    monkeypatch.setattr(cluster_observer, "write_gangs", refused)
    world.cluster.put(POD, pod("a"))
    own = world.group(pods=1)
    world.reconcile(own)
    world.reconcile(own)
    until(ObservedPod.objects.count)
    monkeypatch.setattr(cluster_observer, "write_gangs", gang_rows.write_gangs)
    until(lambda: rows() == {"g": (1, False)})


def test_a_gang_whose_contents_cannot_be_written_holds_up_no_other(world, monkeypatch, request, caplog):
    def write(cluster, changes):
        if any(key[2] == "bad" for key in changes.gangs):
            raise DataError("no such text")
        gang_rows.write_gangs(cluster, changes)

    monkeypatch.setattr(cluster_observer, "write_gangs", write)
    for name in ("good", "bad"):
        world.cluster.put(POD, pod(name, name))
    request.getfixturevalue("observer")
    until(lambda: rows_named() == {"good"})
    until(lambda: completeness(GANGS).is_known)


def test_an_object_that_nobody_can_read_is_named_and_holds_up_no_other(world, monkeypatch, request, caplog):
    keep = type(KAI.foreign).keep

    def fails(self, resource, obj, *, pod_of):
        if (name := obj["metadata"]["name"]).startswith("bad"):
            raise ValueError(name)
        return keep(self, resource, obj, pod_of=pod_of)

    monkeypatch.setattr(type(KAI.foreign), "keep", fails)
    for name in ("good", "bad", "bad-too"):
        world.cluster.put(KAI_POD_GROUP, group(name))
        world.cluster.put(POD, pod(name, name))
    request.getfixturevalue("observer")
    until(lambda: rows() == {"good": (1, True), "bad": (1, False), "bad-too": (1, False)})
    until(lambda: cluster().quarantine and cluster().quarantine["count"] == 2)
    named = cluster().quarantine["objects"]
    assert {entry["error"] for entry in named} == {"ValueError"}
    assert all(entry["object"].startswith(f"{KAI.pod_group.crd} ") for entry in named)
    assert "bad" not in str(named) + caplog.text, "names, and the words of a fault, are those of others"
