"""The observer on a cluster in memory: real streams, real threads, real rows."""

import threading
import time

import pytest
from django.db import DatabaseError
from django.utils import timezone

from cluster.errors import RequestForbidden
from cluster.kinds import COMPUTE_DOMAIN, EVENT, NODE, POD
from pools.clusters import connect
from pools.models import Backend, Cluster, ForeignUsage, Node, ObservedTopology
from scheduling.backends.registry import scheduler_backend
from tests.factories import foreign_usage
from tests.fakes.kinds import KAI_POD_GROUP, KAI_TOPOLOGY, POD_GROUP
from tests.worker.world import World
from workflows.models import Event, ObservedObject, ObservedPod, TaskGroup
from workflows.observer import inbox, process, streams, writer
from workflows.observer.process import Observer

pytestmark = pytest.mark.django_db(transaction=True)
SECONDS = 20
KAI = scheduler_backend("kai").topology.crd


def until(look):
    deadline = time.monotonic() + SECONDS
    while not (seen := look()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)
    return seen


@pytest.fixture
def world(transactional_db, monkeypatch):
    world = World()
    monkeypatch.setattr(connect, "connect", lambda *args: world.cluster)
    monkeypatch.setattr(process, "ROWS_SECONDS", 0.2)
    monkeypatch.setattr(inbox, "FOREIGN_USAGE_SECONDS", 0.05)
    monkeypatch.setattr(streams, "backoff", lambda attempt, *, spread: 0.05)
    return world


@pytest.fixture
def observer(world):
    started = []

    def start():
        observer = Observer()
        thread = threading.Thread(target=observer.run)
        thread.start()
        started.append((observer, thread))
        return observer

    yield start
    for one, thread in started:
        one.stop()
        thread.join(SECONDS)
        assert not thread.is_alive()


def pods():
    return {pod.name: pod for pod in ObservedPod.objects.all()}


def test_what_is_there_and_what_comes_is_written_and_its_group_notified(world, observer):
    group = world.group(pods=1)
    world.look(group)
    world.look(group)
    observer()
    name = group.tasks.get().pod_name
    until(lambda: name in pods() and pods()[name].phase == "Running")
    until(
        lambda: (
            {o.kind for o in ObservedObject.objects.all()}
            == {"ComputeDomain", "PodGroup", "ResourceClaimTemplate"}
        )
    )
    before = TaskGroup.objects.get().notifications
    world.finish(group, 3)
    until(lambda: pods()[name].phase == "Failed")
    assert pods()[name].digest["containers"][0]["exit"] == 3
    assert TaskGroup.objects.get().notifications > before


def test_what_goes_is_marked_and_keeps_its_last_words(world, observer):
    group = world.group(pods=1)
    world.look(group)
    world.look(group)
    observer()
    name = group.tasks.get().pod_name
    until(lambda: name in pods() and pods()[name].phase == "Running")
    world.cluster.remove(POD, name, namespace="osmo")
    until(lambda: pods()[name].absent)
    assert pods()[name].digest["containers"]
    world.cluster.remove(KAI_POD_GROUP, group.uuid.hex, namespace="osmo")
    until(lambda: not ObservedObject.objects.filter(kind="PodGroup").exists())


def test_what_vanished_while_nobody_looked_is_found_out(world, observer):
    group = world.group(pods=2)
    world.look(group)
    world.look(group)
    world.observe()
    assert len(pods()) == 2
    name = group.tasks.first().pod_name
    world.cluster.remove(POD, name, namespace="osmo")
    observer()
    until(lambda: pods()[name].absent)
    assert pods()[name].digest["containers"]


def test_it_goes_on_after_cuts_and_forgotten_history(world, observer):
    group = world.group(pods=1)
    observer()
    world.cluster.cut_watches()
    world.cluster.compact()
    world.look(group)
    world.look(group)
    until(lambda: len(pods()) == 1)


def test_nodes_are_followed_and_known_to_be_complete(world, observer):
    world.pool()
    world.cluster.put(NODE, {"metadata": {"name": "n1", "labels": {"rack": "1"}}})
    observer()
    until(lambda: Node.objects.filter(name="n1").exists())
    until(lambda: Cluster.objects.get(uid=world.uid).nodes_synced_at)
    world.cluster.remove(NODE, "n1")
    until(lambda: not Node.objects.exists())


def test_backends_that_come_and_go_are_followed_without_a_restart(world, observer):
    running = observer()
    until(lambda: running.refreshed_at > 0)
    assert not running.followers
    world.pool()
    until(lambda: any(key[3] == "Pod" for key in running.followers))
    Backend.objects.update(namespace="other")
    until(lambda: {key[4] for key in running.followers} == {"", "other"})
    Backend.objects.update(cleaned_at="2026-01-01T00:00:00Z", deleted_at="2026-01-01T00:00:00Z")
    until(lambda: not running.followers)


def test_a_cluster_without_a_definition_is_followed_for_the_rest(world, observer):
    world.cluster.unserved.add(COMPUTE_DOMAIN)
    group = world.group(pods=1, pool=world.pool())
    observer()
    world.look(group)
    world.look(group)
    until(lambda: len(pods()) == 1)


def test_nothing_is_written_of_another_cluster(world, observer):
    group = world.group(pods=1)
    world.look(group)
    world.look(group)
    Backend.objects.update(cluster=Cluster.objects.create(uid="another"))
    running = observer()
    until(lambda: running.followers)
    time.sleep(0.3)  # long enough for many tries
    assert not ObservedPod.objects.exists()


def test_events_of_the_cluster_join_the_timeline_once(world, observer):
    group = world.group(pods=1)
    world.look(group)
    observer()
    about = {"kind": "PodGroup", "name": group.uuid.hex, "namespace": "osmo"}
    for _ in range(2):
        world.cluster.put(
            EVENT,
            {
                "metadata": {"name": "e", "namespace": "osmo", "uid": "e"},
                "involvedObject": about,
                "reason": "NotReady",
                "message": "Waiting for 2 pods",
                "type": "Normal",
                "lastTimestamp": "2026-01-01T00:00:00Z",
                "source": {"component": "kai-scheduler"},
            },
        )
    line = until(lambda: Event.objects.filter(reason="NotReady").first())
    assert (line.source, line.group_id, line.message) == ("kai-scheduler", group.pk, "Waiting for 2 pods")
    assert Event.objects.filter(reason="NotReady").count() == 1


KUBERNETES = {"scheduler_type": "kubernetes", "scheduler_name": "default-scheduler"}


def test_topology_objects_of_anybody_are_followed(world, observer):
    world.pool()
    theirs = {
        "metadata": {"name": "site"},
        "spec": {"levels": [{"nodeLabel": "zone"}, {"nodeLabel": "rack"}]},
    }
    world.cluster.put(KAI_TOPOLOGY, theirs)
    ObservedTopology.objects.create(
        cluster_id=world.uid, resource=KAI, name="vanished", labels=["x"], seen_at=timezone.now()
    )
    observer()

    def seen():
        return dict(ObservedTopology.objects.filter(resource=KAI).values_list("name", "labels"))

    until(lambda: seen() == {"site": ["zone", "rack"]})
    until(lambda: Cluster.objects.get().topologies_listed == [KAI])
    before = Cluster.objects.get().changes
    world.cluster.put(KAI_TOPOLOGY, theirs | {"spec": {"levels": [{"nodeLabel": "rack"}]}})
    until(lambda: seen() == {"site": ["rack"]})
    assert Cluster.objects.get().changes > before
    world.cluster.remove(KAI_TOPOLOGY, "site")
    until(lambda: seen() == {})


def test_only_nodes_that_come_go_or_move_make_conditions_due(world):
    def raised_by(**node):
        before = Cluster.objects.get().changes
        world.cluster.put(NODE, {"metadata": {"name": "n1", "labels": node.pop("labels")}, **node})
        world.observe()
        return Cluster.objects.get().changes - before

    world.pool()
    assert raised_by(labels={"rack": "1"}) == 1
    assert raised_by(labels={"rack": "1"}, spec={"unschedulable": True}) == 0
    assert raised_by(labels={"rack": "2"}, spec={"unschedulable": True}) == 1
    before = Cluster.objects.get().changes
    world.cluster.remove(NODE, "n1")
    world.observe()
    assert Cluster.objects.get().changes == before + 1


def test_backends_of_one_cluster_share_its_nodes_whatever_their_schedulers(world, observer):
    for kind in ("kai", "kubernetes", "default"):
        world.pool(backend={"scheduler_type": kind, "namespace": f"osmo-{kind}"})
    running = observer()
    until(lambda: running.followers and all(one.connected for one in list(running.followers.values())))
    followed = [key[3] for key in running.followers]
    assert followed.count("Node") == 1
    assert {kind for kind in followed if kind.startswith("PodGroup")} == {
        "PodGroup.scheduling.run.ai",
        "PodGroup.scheduling.k8s.io",
    }


def test_pod_groups_of_two_schedulers_in_one_namespace_are_kept_apart(world, observer):
    """Both are PodGroups; a complete list of the ones says nothing about the others."""
    groups = [world.group(pods=2), world.group(pods=2, pool=world.pool(backend=KUBERNETES))]
    world.settle()
    wanted = {(groups[0].uuid, f"{groups[0].uuid.hex}"), (groups[1].uuid, f"{groups[1].uuid.hex}-0")}

    def kept():
        rows = ObservedObject.objects.filter(kind="PodGroup")
        return set(rows.values_list("group_uuid", "name"))

    assert kept() == wanted
    running = observer()
    until(lambda: running.followers and all(one.connected for one in running.followers.values()))
    ObservedObject.objects.filter(name=groups[0].uuid.hex).update(uid="old")
    world.cluster.remove(POD_GROUP, f"{groups[1].uuid.hex}-0", namespace="osmo")
    until(lambda: kept() != wanted)
    assert kept() == {(groups[0].uuid, groups[0].uuid.hex)}


def stranger(name, node, *, gpu="2", phase="Running"):
    container = {"name": "c", "resources": {"requests": {"nvidia.com/gpu": gpu, "cpu": "500m"}}}
    return {
        "metadata": {"name": name, "namespace": "osmo"},
        "spec": {"nodeName": node, "containers": [container]} if node else {"containers": [container]},
        "status": {"phase": phase},
    }


def by_others():
    return {row.node: (row.gpu, row.cpu, row.pods) for row in ForeignUsage.objects.all()}


def test_what_pods_of_others_hold_is_summed_by_node_and_ours_are_none_of_them(world, observer):
    group = world.group(pods=1)
    world.look(group)
    world.look(group)
    for name, node in (("a", "n1"), ("b", "n1"), ("c", "n2"), ("ended", "n1"), ("bound later", "")):
        world.cluster.put(POD, stranger(name, node))
    world.cluster.put(POD, stranger("ended", "n1", phase="Succeeded"))
    foreign_usage(Cluster.objects.get(uid=world.uid), "vanished", gpu=1)
    Cluster.objects.update(others_synced_at=None)
    observer()
    later = {"node-0": (2, 500, 1)}  # where ours stands too
    until(lambda: by_others() == {"n1": (4, 1000, 2), "n2": (2, 500, 1)} | later)
    until(lambda: Cluster.objects.get(uid=world.uid).others_synced_at)
    assert len(until(pods)) == 1
    world.cluster.remove(POD, "c", namespace="osmo")
    world.cluster.remove(POD, "a", namespace="osmo")
    until(lambda: by_others() == {"n1": (2, 500, 1)} | later)
    world.cluster.cut_watches()
    world.cluster.compact()
    world.cluster.put(POD, stranger("d", "n3", gpu="8"))
    until(lambda: by_others() == {"n1": (2, 500, 1), "n3": (8, 500, 1)} | later)


def test_without_the_right_to_follow_pods_of_others_all_else_is_followed(world, observer, monkeypatch):
    refuse(world.cluster, monkeypatch, refused := {"list"})
    world.cluster.put(POD, stranger("a", "n1"))
    group = world.group(pods=1)
    observer()
    until(lambda: "may not list pods" in Cluster.objects.get(uid=world.uid).others_problem)
    world.look(group)
    world.look(group)
    until(pods)
    assert (by_others(), Cluster.objects.get(uid=world.uid).others_synced_at) == ({}, None)
    refused.clear()
    until(lambda: by_others() == {"n1": (2, 500, 1)})
    found = until(lambda: Cluster.objects.filter(uid=world.uid, others_synced_at__isnull=False).first())
    assert found.others_problem == ""


def refuse(cluster, monkeypatch, verbs):
    """Refuse these verbs on pods of the whole cluster."""

    def guarded(verb, call):
        def asked(kind, *args, namespace="", **more):
            if kind == POD and not namespace and verb in verbs:
                raise RequestForbidden("you may not list pods", status=403)
            return call(kind, *args, namespace=namespace, **more)

        return asked

    monkeypatch.setattr(cluster, "scan", guarded("list", cluster.scan))


def test_what_others_hold_that_cannot_be_written_holds_up_nothing_of_ours(world, observer, monkeypatch):
    def refused(cluster, others):
        raise DatabaseError("no room for others")

    monkeypatch.setattr(process, "write_foreign_usage", refused)
    world.cluster.put(POD, stranger("a", "n1"))
    group = world.group(pods=1)
    running = observer()
    world.look(group)
    world.look(group)
    until(pods)
    until(running.inbox.size)
    monkeypatch.setattr(process, "write_foreign_usage", writer.write_foreign_usage)
    until(lambda: by_others() == {"n1": (2, 500, 1)})
