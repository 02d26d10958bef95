"""The observer on a cluster in memory: real streams, real threads, real rows."""

import itertools
import threading
import time
from datetime import timedelta

import pytest
from django.db import DatabaseError, OperationalError, transaction
from django.utils import timezone

from cluster.errors import ClusterUnreachable, RequestForbidden
from cluster.kinds import COMPUTE_DOMAIN, DEVICE_CLASS, EVENT, NAMESPACE, NODE, POD, RESOURCE_SLICE
from pools.clusters import connect
from pools.models import (
    Backend,
    Cluster,
    ClusterLease,
    ForeignUsage,
    Node,
    ObservedResource,
    Pool,
)
from pools.values.completeness import NODES, OTHERS, Completeness
from scheduling.backends.registry import scheduler_backend
from scheduling.nodes.channels import CHANNEL_DRIVER
from scheduling.nodes.devices import CLASSES, SLICES
from tests.builders.completeness import completeness, note_lists
from tests.builders.waiting import until
from tests.factories import BackendFactory, NodeFactory, PoolFactory, foreign_usage
from tests.fakes.cluster import FakeCluster
from tests.fakes.kinds import KAI_POD_GROUP, KAI_QUEUE, KAI_TOPOLOGY, POD_GROUP
from tests.worker.world import World
from workflows.models import Event, ObservedObject, ObservedPod, TaskGroup
from workflows.observer import cluster_observer, inbox, lease, process, streams, writer
from workflows.observer.process import Observer
from workflows.values.observation import DOMAIN_LABEL, PodSeen

pytestmark = pytest.mark.django_db(transaction=True)
SECONDS = 90
KAI = scheduler_backend("kai").topologies.kind.crd
QUEUES = scheduler_backend("kai").queues.queue.crd


@pytest.fixture
def world(transactional_db, monkeypatch):
    world = World()
    monkeypatch.setattr(connect, "connect", lambda *args: world.cluster)
    monkeypatch.setattr(process, "ROWS_SECONDS", 0.2)
    monkeypatch.setattr(inbox, "FOREIGN_USAGE_SECONDS", 0.05)
    monkeypatch.setattr(streams, "backoff", lambda attempt, *, spread: 0.05)
    monkeypatch.setattr(lease, "SECONDS", 0.5)
    monkeypatch.setattr(cluster_observer, "TAKE_SECONDS", 0.05)
    monkeypatch.setattr(cluster_observer, "HOLD_SECONDS", 0.1)
    return world


@pytest.fixture
def observer(world):
    started = []

    def start(most=0):
        observer = Observer(most=most)
        thread = threading.Thread(target=observer.run)
        thread.start()
        started.append((observer, thread))
        return observer

    yield start
    for started_observer, thread in started:
        started_observer.stop()
        thread.join(SECONDS)
        assert not thread.is_alive()


def pods():
    return {pod.name: pod for pod in ObservedPod.objects.all()}


def test_present_and_new_objects_are_written_and_their_group_notified(world, observer):
    group = world.group(pods=1)
    world.reconcile(group)
    world.reconcile(group)
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


def test_an_object_that_goes_is_marked_and_keeps_its_last_words(world, observer):
    group = world.group(pods=1)
    world.reconcile(group)
    world.reconcile(group)
    observer()
    name = group.tasks.get().pod_name
    until(lambda: name in pods() and pods()[name].phase == "Running")
    world.cluster.remove(POD, name, namespace="osmo")
    until(lambda: pods()[name].absent)
    assert pods()[name].digest["containers"]
    world.cluster.remove(KAI_POD_GROUP, group.uuid.hex, namespace="osmo")
    until(lambda: not ObservedObject.objects.filter(kind="PodGroup").exists())


def test_an_object_that_vanished_unobserved_is_found_out(world, observer):
    group = world.group(pods=2)
    world.reconcile(group)
    world.reconcile(group)
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
    world.reconcile(group)
    world.reconcile(group)
    until(lambda: len(pods()) == 1)


def test_nodes_are_followed_and_known_to_be_complete(world, observer):
    world.pool()
    world.cluster.put(NODE, {"metadata": {"name": "n1", "labels": {"rack": "1"}}})
    observer()
    until(lambda: Node.objects.filter(name="n1").exists())
    until(lambda: completeness(NODES).is_known)
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
    world.reconcile(group)
    world.reconcile(group)
    until(lambda: len(pods()) == 1)


def test_nothing_is_written_of_another_cluster(world, observer):
    group = world.group(pods=1)
    world.reconcile(group)
    world.reconcile(group)
    Backend.objects.update(cluster=Cluster.objects.create(uid="another"))
    running = observer()
    until(lambda: running.followers)
    time.sleep(0.3)  # long enough for many tries
    assert not ObservedPod.objects.exists()


def test_events_of_the_cluster_join_the_timeline_once(world, observer):
    group = world.group(pods=1)
    world.reconcile(group)
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
    ObservedResource.objects.create(
        cluster_id=world.uid, resource=KAI, name="vanished", reading={"labels": ["x"]}, seen_at=timezone.now()
    )
    observer()

    def seen():
        return dict(ObservedResource.objects.filter(resource=KAI).values_list("name", "reading__labels"))

    until(lambda: seen() == {"site": ["zone", "rack"]})
    until(lambda: completeness(KAI).is_known)
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
    assert raised_by(labels={"rack": "2", DOMAIN_LABEL: "of a gang"}) == 0
    assert Node.objects.get().labels[DOMAIN_LABEL] == "of a gang"
    before = Cluster.objects.get().changes
    world.cluster.remove(NODE, "n1")
    world.observe()
    assert Cluster.objects.get().changes == before + 1


def leases():
    return dict(ClusterLease.objects.values_list("cluster_id", "observer"))


def test_observers_with_a_bound_share_the_clusters(world, observer, monkeypatch):
    """Without one, whoever starts first follows all of them, and the others stand by."""
    clusters = {"": world.cluster, "east": FakeCluster(first_uid=10**9)}
    monkeypatch.setattr(connect, "connect", lambda access, *_: clusters[access.context])
    uids = {cluster.kube_system_uid() for cluster in clusters.values()}
    world.pool()
    PoolFactory(
        backend=BackendFactory(
            cluster__uid=clusters["east"].kube_system_uid(), kubeconfig="/k", context="east"
        )
    )
    first = observer(most=1)
    until(lambda: len(leases()) == 1 and first.followers)
    time.sleep(0.5)  # long enough to take the other one as well
    assert len({key[0] for key in first.followers}) == 1
    second = observer(most=1)
    until(lambda: leases().keys() == uids and second.followers)
    assert {key[0] for key in first.followers} | {key[0] for key in second.followers} == uids


def test_a_cluster_whose_observer_ends_is_followed_by_one_with_a_free_place(world, observer):
    world.pool()
    first = observer(most=1)
    until(lambda: first.followers)
    second = observer(most=1)
    first.stop()
    until(lambda: second.followers)


def test_backends_of_one_cluster_share_its_nodes_whatever_their_schedulers(world, observer):
    for kind in ("kai", "kubernetes", "default"):
        world.pool(backend={"scheduler_type": kind, "namespace": f"osmo-{kind}"})
    running = observer()
    pod_groups = {"PodGroup.scheduling.run.ai", "PodGroup.scheduling.k8s.io"}
    until(lambda: _kinds(running) >= {"Node", *pod_groups} and all(_connected(running)))
    assert {kind for kind in _kinds(running) if kind.startswith("PodGroup")} == pod_groups
    assert [key[3] for key in running.followers].count("Node") == 1


def _kinds(running):
    return {key[3] for key in list(running.followers)}


def _connected(running):
    return [follower.connected for follower in list(running.followers.values())]


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
    until(lambda: any(_connected(running)) and all(_connected(running)))
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


def test_the_requests_of_others_pods_are_summed_by_node_and_ours_are_none_of_them(world, observer):
    group = world.group(pods=1)
    world.reconcile(group)
    world.reconcile(group)
    for name, node in (("a", "n1"), ("b", "n1"), ("c", "n2"), ("ended", "n1"), ("bound later", "")):
        world.cluster.put(POD, stranger(name, node))
    world.cluster.put(POD, stranger("ended", "n1", phase="Succeeded"))
    foreign_usage(Cluster.objects.get(uid=world.uid), "vanished", gpu=1)
    note_lists({OTHERS: None})
    observer()
    later = {"node-0": (2, 500, 1)}  # where ours stands too
    until(lambda: by_others() == {"n1": (4, 1000, 2), "n2": (2, 500, 1)} | later)
    until(lambda: completeness(OTHERS).is_known)
    assert len(until(pods)) == 1
    world.cluster.remove(POD, "c", namespace="osmo")
    world.cluster.remove(POD, "a", namespace="osmo")
    until(lambda: by_others() == {"n1": (2, 500, 1)} | later)
    world.cluster.cut_watches()
    world.cluster.compact()
    world.cluster.put(POD, stranger("d", "n3", gpu="8"))
    until(lambda: by_others() == {"n1": (2, 500, 1), "n3": (8, 500, 1)} | later)


def test_a_pod_with_our_label_in_a_namespace_of_others_uses_its_node_like_any_other(world, observer):
    group = world.group(pods=1)
    world.reconcile(group)
    world.reconcile(group)
    world.cluster.put(NAMESPACE, {"metadata": {"name": "theirs"}})
    own = until(lambda: world.cluster.all(POD))[0]["metadata"]["labels"]
    for name in ("a", "b"):
        copied = stranger(name, "n1")
        copied["metadata"] |= {"namespace": "theirs", "labels": own}
        world.cluster.put(POD, copied)
    world.cluster.put(POD, stranger("c", "n1"))
    observer()
    until(lambda: by_others() == {"n1": (6, 1500, 3)})
    until(lambda: completeness(OTHERS).is_known)
    world.cluster.remove(POD, "a", namespace="theirs")
    world.cluster.remove(POD, "c", namespace="osmo")
    until(lambda: by_others() == {"n1": (2, 500, 1)})


def test_without_the_right_to_follow_pods_of_others_all_else_is_followed(world, observer, monkeypatch):
    refuse(world.cluster, monkeypatch, refused := {"list"})
    world.cluster.put(POD, stranger("a", "n1"))
    group = world.group(pods=1)
    observer()
    until(lambda: "may not list pods" in completeness(OTHERS).problem)
    world.reconcile(group)
    world.reconcile(group)
    until(pods)
    assert (by_others(), completeness(OTHERS).is_known) == ({}, False)
    refused.clear()
    until(lambda: by_others() == {"n1": (2, 500, 1)})
    until(lambda: completeness(OTHERS).is_known)
    assert completeness(OTHERS).problem == ""


def refuse(cluster, monkeypatch, verbs, *, refused_kind=POD):
    """Refuse these verbs on objects of a kind in the whole cluster."""

    def guarded(verb, call):
        def asked(kind, *args, namespace="", **more):
            if kind == refused_kind and not namespace and verb in verbs:
                raise RequestForbidden(f"you may not list {kind.plural}", status=403)
            return call(kind, *args, namespace=namespace, **more)

        return asked

    monkeypatch.setattr(cluster, "scan", guarded("list", cluster.scan))


def queue(name, *, limit=-1, used="0", parent=""):
    return {
        "metadata": {"name": name},
        "spec": {"parentQueue": parent, "resources": {"gpu": {"quota": -1, "limit": limit}}},
        "status": {"allocated": {"nvidia.com/gpu": used}},
    }


def queues():
    return {
        row.name: (row.reading["parent"], row.reading["bounds"]["gpu"][1], row.reading["used"]["gpu"])
        for row in ObservedResource.objects.filter(name__in=["theirs", "other"])
    }


def test_queues_of_anybody_are_followed_with_what_is_in_use_in_them(world, observer):
    world.group(pods=1)
    world.cluster.put(KAI_QUEUE, queue("theirs", limit=16, used="12"))
    world.cluster.put(KAI_QUEUE, queue("other", parent="theirs"))
    observer()
    until(lambda: queues() == {"theirs": ("", 16, 12), "other": ("theirs", -1, 0)})
    until(lambda: completeness(QUEUES).is_known)
    world.cluster.put(KAI_QUEUE, queue("theirs", limit=16, used="4"))
    world.cluster.remove(KAI_QUEUE, "other")
    until(lambda: queues() == {"theirs": ("", 16, 4)})


def test_without_the_right_to_follow_queues_all_else_is_followed(world, observer, monkeypatch):
    refuse(world.cluster, monkeypatch, refused := {"list"}, refused_kind=KAI_QUEUE)
    world.cluster.put(KAI_QUEUE, queue("theirs"))
    group = world.group(pods=1)
    observer()
    until(lambda: "may not list queues" in completeness(QUEUES).problem)
    world.reconcile(group)
    world.reconcile(group)
    until(pods)
    assert (queues(), completeness(QUEUES).is_known) == ({}, False)
    refused.clear()
    until(lambda: "theirs" in queues())
    until(lambda: completeness(QUEUES).is_known)
    assert completeness(QUEUES).problem == ""


def test_queues_that_nobody_follows_any_more_are_unknown(world, observer):
    for kind in ("kai", "kubernetes"):
        world.pool(backend={"scheduler_type": kind, "namespace": f"osmo-{kind}"})
    observer()
    until(lambda: completeness(QUEUES).is_known and completeness(NODES).is_known)
    now = timezone.now()
    Backend.objects.filter(scheduler_type="kai").update(cleaned_at=now, deleted_at=now)
    until(lambda: not completeness(QUEUES).is_known)
    assert completeness(NODES).is_known


def test_usage_of_others_that_cannot_be_written_holds_up_nothing_of_ours(world, observer, monkeypatch):
    def refused(cluster, others):
        raise DatabaseError("no room for others")

    monkeypatch.setattr(cluster_observer, "write_foreign_usage", refused)
    world.cluster.put(POD, stranger("a", "n1"))
    group = world.group(pods=1)
    running = observer()
    world.reconcile(group)
    world.reconcile(group)
    until(pods)
    until(running.waiting_changes)
    monkeypatch.setattr(cluster_observer, "write_foreign_usage", writer.write_foreign_usage)
    until(lambda: by_others() == {"n1": (2, 500, 1)})


# What cannot be written


LONG = "n" * 300
"""More than the name of a node may have, and than its column takes."""


def labelled(group, name, *, status=None, **spec):
    """A pod that says that it is of this group."""
    labels = {"osmo.nvidia.com/installation": group.placement["installation"]}
    labels["osmo.nvidia.com/task-group"] = group.uuid.hex
    metadata = {"name": name, "namespace": "osmo", "labels": labels}
    return {
        "metadata": metadata,
        "spec": {"containers": [], **spec},
        "status": status or {"phase": "Running"},
    }


def kept_aside():
    return Cluster.objects.get().quarantine


def test_a_nul_in_a_termination_message_is_written_like_any_text(world, observer):
    group = world.group(pods=1)
    world.reconcile(group)
    world.reconcile(group)
    name = group.tasks.get().pod_name
    world.cluster.edit(
        POD, name, lambda pod: pod.setdefault("status", {}).update(message="a\0b\ud800"), namespace="osmo"
    )
    observer()
    mark = "\N{REPLACEMENT CHARACTER}"
    until(lambda: name in pods() and pods()[name].digest.get("message") == f"a{mark}b{mark}")
    assert kept_aside() == {}
    world.reconcile(group)


def test_an_object_that_cannot_be_written_is_kept_aside_and_holds_up_nothing(world, observer):
    group = world.group(pods=2)
    world.cluster.put(POD, labelled(group, "before", nodeName="n1"))
    world.cluster.put(POD, labelled(group, "bad", nodeName=LONG))
    world.cluster.put(POD, labelled(group, "behind", nodeName="n1"))
    observer()
    until(lambda: {"before", "behind"} <= pods().keys())
    named = until(kept_aside)
    assert (named["count"], named["objects"][0]["object"]) == (1, "Pod osmo bad")
    world.cluster.put(POD, labelled(group, "later", nodeName="n1"))
    until(lambda: "later" in pods())
    assert "bad" not in pods()
    world.cluster.put(POD, labelled(group, "bad", nodeName="n2"))
    until(lambda: "bad" in pods())
    until(lambda: not kept_aside())


def test_an_object_that_cannot_be_read_is_kept_aside_until_it_is_gone(world, observer):
    world.pool()
    world.cluster.put(KAI_TOPOLOGY, {"metadata": {"name": "odd"}, "spec": {"levels": [1]}})
    world.cluster.put(
        KAI_TOPOLOGY, {"metadata": {"name": "site"}, "spec": {"levels": [{"nodeLabel": "rack"}]}}
    )
    observer()
    until(lambda: [row.name for row in ObservedResource.objects.all()] == ["site"])
    until(lambda: completeness(KAI).is_known)
    assert until(kept_aside)["objects"][0]["object"] == f"{KAI} odd"
    world.cluster.remove(KAI_TOPOLOGY, "odd")
    until(lambda: not kept_aside())


def test_a_cluster_whose_changes_cannot_be_written_holds_up_no_other(world, observer, monkeypatch):
    other = FakeCluster(namespaces=("kube-system", "default", "osmo"))  # so its uid is another one
    uid = other.kube_system_uid()
    BackendFactory(name="other", cluster__uid=uid, kubeconfig="/other")
    world.pool()
    connect_to = {"/other": other}
    monkeypatch.setattr(
        connect, "connect", lambda access, *_limits: connect_to.get(access.kubeconfig, world.cluster)
    )

    def write(cluster, batch):
        if cluster == world.uid:
            raise OperationalError("canceling statement due to lock timeout")
        return writer.write(cluster, batch)

    monkeypatch.setattr(cluster_observer, "write", write)
    for cluster in (world.cluster, other):
        cluster.put(NODE, {"metadata": {"name": "n1"}})
    running = observer()
    until(lambda: Node.objects.filter(cluster_id=uid).exists())
    assert not Node.objects.filter(cluster_id=world.uid).exists()
    monkeypatch.setattr(cluster_observer, "write", writer.write)
    until(lambda: Node.objects.filter(cluster_id=world.uid).exists())
    assert set(running.clusters) == {world.uid, uid}


# One observer writes about a cluster


def followed_by(running):
    return bool(running.followers)


def test_a_second_observer_stands_by_and_takes_over_when_the_first_ends(world, observer, monkeypatch):
    monkeypatch.setattr(lease, "SECONDS", 6)  # the first keeps it on a busy machine too
    group = world.group(pods=1)
    first = observer()
    until(lambda: followed_by(first))
    second = observer()
    until(lambda: second.clusters)
    ends = ClusterLease.objects.get().until
    until(lambda: timezone.now() > ends)  # longer than a lease
    assert not followed_by(second)
    assert ClusterLease.objects.get().observer == lease.holder_name()
    first.stop()
    until(lambda: followed_by(second))
    world.reconcile(group)
    world.reconcile(group)
    until(pods)


def test_a_second_observer_takes_over_from_one_that_died(world, observer, monkeypatch):
    world.pool()
    first = observer()
    until(lambda: followed_by(first))
    monkeypatch.setattr(cluster_observer, "release", lambda lease: None)
    first.stop()
    second = observer()
    world.cluster.put(NODE, {"metadata": {"name": "n1"}})
    until(Node.objects.exists)
    assert followed_by(second)


def test_a_late_write_of_a_former_holder_is_refused(world, monkeypatch):
    monkeypatch.setattr(lease, "SECONDS", 300)
    world.pool()
    former = lease.take(world.uid)
    assert former is not None
    assert lease.take(world.uid) is None
    ClusterLease.objects.update(until=timezone.now() - timedelta(seconds=1))
    with transaction.atomic():
        lease.hold(former)  # nobody took it, so it goes on
    ClusterLease.objects.update(until=timezone.now() - timedelta(seconds=1))
    assert lease.take(world.uid)
    with pytest.raises(lease.ObserverLeaseLost), transaction.atomic():
        lease.hold(former)
    lease.release(former)
    assert ClusterLease.objects.exists()


def test_a_database_that_was_put_back_is_brought_in_line_by_an_observer_that_ran_on(world, observer):
    group = world.group(pods=1)
    world.reconcile(group)
    world.reconcile(group)
    observer()
    name = group.tasks.get().pod_name
    until(lambda: name in pods() and pods()[name].phase == "Running")
    with transaction.atomic():
        earlier = ClusterLease.objects.select_for_update().get(), pods()[name]
    world.cluster.remove(POD, name, namespace="osmo")
    until(lambda: pods()[name].absent)
    with transaction.atomic():
        for row in earlier:
            row.save(force_update=True)
    until(lambda: pods()[name].absent)


def pod_seen(group, phase, version):
    return PodSeen(
        namespace="osmo",
        name="p",
        uid="u",
        group_uuid=group.uuid,
        phase=phase,
        digest={"x": 1},
        resource_version=version,
    )


def test_an_older_version_is_not_written_over_a_newer_one(world):
    group = world.group(pods=1)

    def after(phase, version, *, listed=False):
        change = pod_seen(group, phase, version)
        writer.write(
            world.uid, inbox.Batch(changes=[change], listed={inbox.key_of(change)} if listed else set())
        )
        return ObservedPod.objects.get().phase

    assert after("Running", "10") == "Running"
    assert after("Pending", "9") == "Running"
    assert after("Succeeded", "11") == "Succeeded"
    assert after("Failed", "opaque") == "Failed", "the holder of the lease decides"
    assert after("Running", "3", listed=True) == "Running", "a complete list is the present state"


def test_observers_that_die_again_and_again_lose_nothing(world, observer, monkeypatch):
    group = world.group(pods=1)
    monkeypatch.setattr(cluster_observer, "release", lambda lease: None)
    written = threading.Event()
    ended = threading.Event()

    def change_pods():
        for turn in itertools.count():
            for number in range(20):
                world.cluster.put(POD, labelled(group, f"p{number}", nodeName=f"n{turn}"))
            if turn % 4 == 3:
                world.cluster.remove(POD, "p0", namespace="osmo")
            written.set()
            if ended.wait(0.01):
                return

    load = threading.Thread(target=change_pods)
    load.start()
    try:
        written.wait(SECONDS)
        for _ in range(4):
            running = observer()
            until(lambda running=running: followed_by(running))
            time.sleep(0.3)
            running.stop()
    finally:
        ended.set()
        load.join(SECONDS)
    observer()
    there = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in world.cluster.all(POD)}
    until(lambda: {name: pod.node_name for name, pod in pods().items() if not pod.absent} == there)


def channel(node, *, driver=CHANNEL_DRIVER, owner=None):
    owners = [{"kind": "Node", "name": owner or node, "uid": "u"}]
    return {
        "metadata": {"name": f"{node}-slice", "ownerReferences": owners},
        "spec": {"driver": driver, "nodeName": node, "devices": [{"name": "channel-0"}]},
    }


def offering():
    return set(Node.objects.filter(offers_channel=True).values_list("name", flat=True))


def slices_state(world):
    slices = Completeness.of(Cluster.objects.get(uid=world.uid).completeness, SLICES)
    return slices.is_known, slices.problem


@pytest.fixture
def nvlink(world):
    """An NVLink pool, by whose group the cluster is followed."""
    world.group(pods=1)
    Pool.objects.update(nvlink=True)
    return world


def add_nodes(world, *names):
    for name in names:
        world.cluster.put(NODE, {"metadata": {"name": name}})


def test_a_channel_counts_for_the_node_whose_plugin_publishes_it(nvlink, observer):
    add_nodes(nvlink, "n1", "n2", "n3")
    nvlink.cluster.put(RESOURCE_SLICE, channel("n1"))
    nvlink.cluster.put(RESOURCE_SLICE, channel("n2", driver="gpu.nvidia.com"))
    nvlink.cluster.put(RESOURCE_SLICE, channel("n3", owner="n1"))
    observer()
    until(lambda: slices_state(nvlink) == (True, "") and Node.objects.count() == 3)
    until(lambda: offering() == {"n1"})


def test_slices_and_nodes_may_come_in_any_order_and_go(nvlink, observer):
    observer()
    until(lambda: slices_state(nvlink) == (True, ""))
    nvlink.cluster.put(RESOURCE_SLICE, channel("n1"))
    until(ObservedResource.objects.filter(resource=SLICES).exists)
    add_nodes(nvlink, "n1", "n2")
    until(lambda: offering() == {"n1"})
    nvlink.cluster.put(RESOURCE_SLICE, channel("n2"))
    until(lambda: offering() == {"n1", "n2"})
    joined = Node.objects.get(name="n1").channel_since
    nvlink.cluster.remove(RESOURCE_SLICE, "n1-slice")
    until(lambda: offering() == {"n2"})
    assert Node.objects.get(name="n1").channel_since > joined
    nvlink.cluster.put(RESOURCE_SLICE, channel("n2") | {"spec": {"driver": CHANNEL_DRIVER}})
    until(lambda: offering() == set())
    assert not ObservedResource.objects.filter(reading__has_channel=True).exists()


def test_a_change_of_channels_that_nobody_observed_is_found_out(nvlink, observer):
    cluster = Cluster.objects.get(uid=nvlink.uid)
    long_ago = timezone.now() - timedelta(days=1)
    for name in ("n1", "n2"):
        row = NodeFactory(cluster=cluster, name=name, offers_channel=name == "n1", channel_since=long_ago)
        add_nodes(nvlink, name)
    nvlink.cluster.put(NODE, {"metadata": {"name": "n2", "uid": row.uid}})
    ObservedResource.objects.create(
        cluster=cluster,
        resource=SLICES,
        name="old",
        reading={"node": "n1", "pool": "p", "has_channel": True},
        seen_at=long_ago,
    )
    observer()
    until(lambda: slices_state(nvlink) == (True, "") and offering() == set())
    since = dict(Node.objects.values_list("name", "channel_since"))
    assert since["n1"] > long_ago, "another node of its name, whose channel is gone"
    assert since["n2"] == long_ago, "the same node, which has none as before"


def test_slices_that_may_not_be_followed_are_not_known(nvlink, observer, monkeypatch):
    add_nodes(nvlink, "n1")
    refuse(nvlink.cluster, monkeypatch, refused := {"list"}, refused_kind=RESOURCE_SLICE)
    observer()
    until(lambda: slices_state(nvlink) == (False, "you may not list resourceslices"))
    until(Node.objects.exists)
    refused.clear()
    until(lambda: slices_state(nvlink) == (True, ""))


def test_slices_are_not_known_while_their_watch_is_cut(nvlink, observer, monkeypatch):
    began = observer()
    until(lambda: slices_state(nvlink) == (True, ""))
    refused, watch = True, nvlink.cluster.watch

    def cut(kind, **more):
        if kind == RESOURCE_SLICE and refused:
            raise ClusterUnreachable("connection refused")
        return watch(kind, **more)

    monkeypatch.setattr(nvlink.cluster, "watch", cut)
    for key, follower in began.followers.items():
        if key[3] == str(RESOURCE_SLICE):
            follower._watch._stream.close()
    until(lambda: slices_state(nvlink)[0] is False)
    refused = False
    until(lambda: slices_state(nvlink) == (True, ""))


def test_slices_and_device_classes_are_followed_in_every_cluster(nvlink, observer, monkeypatch):
    Pool.objects.update(nvlink=False)
    refuse(nvlink.cluster, monkeypatch, refused := {"list"}, refused_kind=DEVICE_CLASS)
    observer()
    until(lambda: slices_state(nvlink) == (True, ""))
    until(lambda: completeness(CLASSES).problem == "you may not list deviceclasses")
    refused.clear()
    until(lambda: completeness(CLASSES).is_known)


def test_backends_of_one_cluster_share_its_slices(nvlink, observer):
    Pool.objects.update(nvlink=False)
    nvlink.pool(nvlink=True)
    assert Backend.objects.filter(cluster_id=nvlink.uid).count() == 2
    add_nodes(nvlink, "n1")
    nvlink.cluster.put(RESOURCE_SLICE, channel("n1"))
    began = observer()
    until(lambda: offering() == {"n1"} and slices_state(nvlink) == (True, ""))
    assert sum(key[3] == str(RESOURCE_SLICE) for key in began.followers) == 1
