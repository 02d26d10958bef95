"""What makes lost messages, lost replies and lost rows harmless."""

import socket
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from celery import current_app
from django.utils import timezone
from kombu import Connection

from cluster import concurrency
from cluster.concurrency import ConcurrencyLimit
from cluster.errors import NotServed, RequestForbidden, WritesSuspended, WritesUnconfirmed
from cluster.kinds import COMPUTE_DOMAIN, POD, SECRET
from pools.clusters.connect import access_of
from pools.interfaces import usage
from pools.models import Backend
from scheduling import names
from tests.factories import (
    LEVELS,
    BackendFactory,
    ClusterFactory,
    PoolFactory,
    TaskGroupFactory,
    installation,
)
from tests.fakes.cluster import FakeCluster
from tests.fakes.kai import reached_through
from tests.fakes.kinds import KAI_TOPOLOGY, WORKLOAD
from tests.worker.world import World
from workflows import tasks
from workflows.models import ObservedObject, ObservedPod, TaskGroup
from workflows.reconcile.end import orphans
from workflows.services import notify, queue
from workflows.services.lease import release, take_lease
from workflows.services.notify import mark_due
from workflows.services.sweep import due_groups, purge_observations
from workflows.tasks import sweep_cluster_orphans


def due(*groups, seconds):
    past = timezone.now() - timedelta(seconds=seconds)
    TaskGroup.objects.filter(pk__in=[g.pk for g in groups]).update(next_reconcile_at=past)


def test_a_group_that_is_due_is_found_though_nobody_told(world):
    group = world.group()
    assert list(due_groups()) == [group.pk]


def test_groups_that_are_held_released_or_not_due_are_left_alone(world):
    held, later, gone = (world.group() for _ in range(3))
    assert take_lease(held.pk)
    TaskGroup.objects.filter(pk=later.pk).update(next_reconcile_at=timezone.now() + timedelta(hours=1))
    TaskGroup.objects.filter(pk=gone.pk).update(status="COMPLETED", released_at=timezone.now())
    assert not due_groups()


def test_a_backend_with_many_due_groups_does_not_crowd_out_another(world):
    crowd = world.pool()
    for _ in range(5):
        due(world.group(pool=crowd, pods=0), seconds=1000)
    late = TaskGroupFactory(pool=PoolFactory(backend=BackendFactory()), pods=0)
    due(late, seconds=1)
    assert late.pk in due_groups(limit=2)


def test_a_pool_with_many_due_groups_does_not_crowd_out_another_of_its_backend(world):
    crowd = world.pool()
    for _ in range(5):
        due(world.group(pool=crowd, pods=0), seconds=1000)
    late = TaskGroupFactory(pool=PoolFactory(backend=crowd.backend), pods=0)
    due(late, seconds=1)
    assert late.pk in due_groups(limit=2)


def test_many_pools_of_one_backend_do_not_crowd_out_another_backend(world):
    backend = world.pool().backend
    for _ in range(5):
        due(TaskGroupFactory(pool=PoolFactory(backend=backend), pods=0), seconds=1000)
    late = TaskGroupFactory(pool=PoolFactory(backend=BackendFactory()), pods=0)
    due(late, seconds=1)
    assert late.pk in due_groups(limit=2)


def test_no_message_is_sent_while_many_wait_already(world, redis_url, monkeypatch, settings):
    queue.forget()
    with current_app.connection_for_write(redis_url) as broker:
        client = broker.default_channel.client
        name = settings.CELERY_TASK_DEFAULT_QUEUE
        monkeypatch.setattr(current_app, "connection_for_write", lambda **_: Connection(redis_url))
        client.delete(name)
        assert (queue.length(), queue.room(of_many=False)) == (0, queue.FULL)
        client.rpush(name, *["{}"] * (queue.FULL + 1))
        queue.forget()
        assert (queue.length(), queue.room(of_many=False)) == (queue.FULL + 1, 0)
        sent = []
        monkeypatch.setattr(current_app, "send_task", lambda name, args, **_: sent.append(args))
        notify._send([[world.group().pk]])
        client.delete(name)
        queue.forget()
    assert sent == []


@pytest.fixture
def busy(monkeypatch):
    """A worker without a free slot for the cluster of a group."""

    def fill(group):
        limit = ConcurrencyLimit()
        limit.share(most=1, silent=1)
        monkeypatch.setattr(concurrency, "WORK", limit)
        return limit, limit.enter(access_of(group.backend))

    return fill


def test_a_group_that_waits_in_this_process_for_a_slot_gets_no_second_message(
    world, busy, monkeypatch, django_capture_on_commit_callbacks
):
    waiting, other = world.group(), world.group()
    limit, _ = busy(waiting)
    tasks.reconcile_task_group(str(waiting.pk))
    assert limit.waiting() == {str(waiting.pk)}
    monkeypatch.setattr(queue, "room", lambda **_: 10)
    sent = []
    monkeypatch.setattr(notify, "_send", sent.extend)
    with django_capture_on_commit_callbacks(execute=True):
        tasks.sweep_due_groups()
    assert sent == [[other.pk]]


def test_a_group_for_which_the_last_thread_had_no_time_left_gets_a_message(
    world, busy, monkeypatch, django_capture_on_commit_callbacks
):
    waiting = world.group()
    _, slot = busy(waiting)
    tasks.reconcile_task_group(str(waiting.pk))
    slot.leave()
    monkeypatch.setattr(queue, "room", lambda **_: 10)
    sent = []
    monkeypatch.setattr(notify, "_send", sent.extend)
    with django_capture_on_commit_callbacks(execute=True):
        tasks.sweep_due_groups()
    assert sent == [[waiting.pk]]


def test_a_message_for_a_group_that_has_a_lease_waits_for_no_slot(world, busy):
    group = world.group()
    limit, _ = busy(group)
    assert take_lease(group.pk)
    tasks.reconcile_task_group(str(group.pk))
    assert limit.waiting() == frozenset()


def test_queries_share_a_connection_until_redis_closes_it(redis_url, monkeypatch):
    opened = []

    def connect(**_):
        opened.append(Connection(redis_url))
        return opened[-1]

    monkeypatch.setattr(current_app, "connection_for_write", connect)
    queue.forget()
    opened.clear()
    try:
        assert None not in (queue.length(), queue.length())
        assert len(opened) == 1
        with Connection(redis_url) as other:
            closed = opened[0].default_channel.client.client_id()
            other.default_channel.client.client_kill_filter(_id=closed)
        assert queue.length() is not None
    finally:
        monkeypatch.undo()
        queue.forget()


def test_nothing_is_sent_to_a_broker_that_does_not_answer(world, monkeypatch):
    """Each message would keep its request waiting; the sweep finds the group all the same."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = f"redis://127.0.0.1:{deaf.getsockname()[1]}/0"
        hangs = partial(Connection, address)
        monkeypatch.setattr(current_app, "connection_for_write", hangs)
        queue.forget()
        sent = []
        monkeypatch.setattr(current_app, "send_task", lambda name, args, **_: sent.append(args))
        group = world.group()
        notify._send([[group.pk]])
        notify._send([[group.pk]])
        assert (sent, queue.is_silent()) == ([], True)
    monkeypatch.undo()
    queue.forget()
    assert group.pk in due_groups(limit=10)


def test_nudging_counts_even_while_a_worker_reconciles(world):
    group = world.group()
    lease = take_lease(group.pk)
    mark_due([group.pk])
    assert release(lease, failures=0, seconds=60.0) is True


def old_cluster(**changes):
    """A cluster in which everything was made some minutes ago."""
    return FakeCluster(now=lambda: datetime.now(UTC) - timedelta(minutes=5), **changes)


def orphan(cluster, kind, name, *, group, owner=None, namespace="osmo"):
    labels = {names.INSTALLATION_LABEL: owner or installation().hex, names.GROUP_LABEL: group}
    obj = {"metadata": {"name": name, "namespace": namespace, "labels": labels}}
    cluster.put(kind, obj | ({"status": {"phase": "Pending"}} if kind == POD else {}))


def test_objects_that_no_row_wants_are_removed_pods_first(db):
    cluster = old_cluster()
    orphan(cluster, POD, "p", group="0" * 32)
    orphan(cluster, SECRET, "s", group="0" * 32)
    assert orphans.sweep(cluster, uid="c", namespaces=["osmo"]) == 1
    assert cluster.kinds() == {"Secret"}
    assert orphans.sweep(cluster, uid="c", namespaces=["osmo"]) == 1
    assert cluster.objects == {}


def test_objects_of_released_groups_are_removed_and_of_others_kept(db):
    cluster = old_cluster()
    done, running = TaskGroupFactory(pods=0), TaskGroupFactory(pods=0)
    TaskGroup.objects.filter(pk=done.pk).update(status="COMPLETED", released_at=timezone.now())
    orphan(cluster, POD, "done", group=done.pk.hex)
    orphan(cluster, POD, "running", group=running.pk.hex)
    orphans.sweep(cluster, uid=running.backend.cluster_id, namespaces=["osmo"])
    assert cluster.names(POD) == ["running"]


def test_a_copy_in_another_namespace_or_cluster_is_removed_and_the_group_keeps_its_own(db):
    group = TaskGroupFactory(pods=0)
    home = group.backend.cluster_id
    for uid, namespace, left in ((home, "osmo", ["p"]), (home, "default", []), ("another", "osmo", [])):
        cluster = old_cluster()
        orphan(cluster, POD, "p", group=group.pk.hex, namespace=namespace)
        orphans.sweep(cluster, uid=uid, namespaces=[namespace])
        assert cluster.names(POD) == left, (uid, namespace)


def test_an_object_that_is_not_ours_or_belongs_to_no_group_or_is_young_is_never_touched(db):
    cluster = old_cluster()
    orphan(cluster, POD, "theirs", group="0" * 32, owner="f" * 32)
    cluster.put(
        KAI_TOPOLOGY, {"metadata": {"name": "t", "labels": {names.INSTALLATION_LABEL: installation().hex}}}
    )
    young = FakeCluster()
    orphan(young, POD, "young", group="0" * 32)
    for row in (cluster, young):
        assert orphans.sweep(row, uid="c", namespaces=["osmo"]) == 0
    assert cluster.names(POD) == ["theirs"]
    assert young.names(POD) == ["young"]


def test_namespaces_of_running_groups_are_swept_after_their_backend_moved(world):
    world.group()
    Backend.objects.update(namespace="elsewhere")
    assert orphans.namespaces_of(world.uid) == {"osmo", "elsewhere"}


def test_the_observations_of_groups_released_long_ago_are_dropped(world):
    old, new = world.group(), world.group()
    world.settle()
    world.finish(old)
    world.finish(new)
    world.settle()
    TaskGroup.objects.filter(pk=old.pk).update(released_at=timezone.now() - timedelta(hours=2))
    purge_observations()
    assert not ObservedPod.objects.filter(group_uuid=old.pk).exists()
    assert not ObservedObject.objects.filter(group_uuid=old.pk).exists()
    assert ObservedPod.objects.filter(group_uuid=new.pk).exists()


def test_pools_learn_what_running_work_needs(db):
    cluster = ClusterFactory()
    pool = PoolFactory(backend=BackendFactory(cluster=cluster), levels=LEVELS)
    line = {"key": "rack", "label": LEVELS[1].label}
    group = TaskGroupFactory(pool=pool, constraints=[line])
    asked = usage()
    assert asked.live_workflows(pool.name) == 1
    assert asked.unreleased_groups(pool.backend_id) == 1
    assert asked.needed_topologies(cluster.uid) == {("kai", (LEVELS[0].label, LEVELS[1].label))}
    assert asked.needed_queues(cluster.uid) == {group.placement["queue"]}
    assert asked.needed_priority_classes(cluster.uid) == {group.placement["priority_class"]}
    assert asked.needed_topologies("another") == set()
    TaskGroup.objects.update(status="COMPLETED", released_at=timezone.now())
    assert asked.unreleased_groups(pool.backend_id) == 0
    assert asked.needed_topologies(cluster.uid) == set()
    assert asked.needed_queues(cluster.uid) == set()
    assert asked.needed_priority_classes(cluster.uid) == set()


def test_a_backend_that_is_back_has_its_groups_reconciled(db):
    world = World()
    group = world.group()
    TaskGroup.objects.update(next_reconcile_at=None)
    usage().notify_backend(group.backend_id)
    assert list(due_groups()) == [group.pk]


def test_an_orphan_that_may_not_be_deleted_or_listed_keeps_no_other_one(db):
    cluster = old_cluster()
    for name in ("a", "b"):
        orphan(cluster, SECRET, name, group="0" * 32)
    cluster.fail(RequestForbidden("not yours"), verb="list", times=1)
    cluster.fail(RequestForbidden("not this one"), verb="delete", name="a", times=10)
    assert orphans.sweep(cluster, uid="c", namespaces=["closed", "osmo"]) == 1
    assert cluster.names(SECRET) == ["a"]


@pytest.mark.parametrize("error", [WritesSuspended("another mark"), WritesUnconfirmed("no right to it")])
def test_a_namespace_without_permit_keeps_no_other_one(db, error):
    cluster = old_cluster()
    orphan(cluster, POD, "former", group="0" * 32, namespace="a-former")
    orphan(cluster, POD, "present", group="1" * 32)
    cluster.fail(error, verb="delete", name="former", times=10)
    with pytest.raises(type(error)):
        orphans.sweep(cluster, uid="c", namespaces=["a-former", "osmo"])
    assert cluster.names(POD) == ["former"]


@pytest.mark.parametrize("error", [RequestForbidden("not yours"), NotServed("404 page not found")])
def test_pods_that_could_not_be_listed_keep_the_rest_of_their_namespace(db, error):
    """An empty list of pods that nobody saw must not let a ComputeDomain go."""
    cluster = old_cluster()
    orphan(cluster, COMPUTE_DOMAIN, "d", group="0" * 32)
    cluster.fail(error, verb="list", kind=POD)
    assert orphans.sweep(cluster, uid="c", namespaces=["osmo"]) == 0
    assert cluster.names(COMPUTE_DOMAIN) == ["d"]


@pytest.mark.parametrize(("unserved", "swept"), [([WORKLOAD], 1), ([], 0)])
def test_a_kind_without_rights_keeps_no_orphan_where_the_cluster_does_not_serve_it(db, unserved, swept):
    cluster = old_cluster(unserved=unserved)
    orphan(cluster, SECRET, "s", group="0" * 32)
    cluster.fail(RequestForbidden("no right to it"), verb="list", kind=WORKLOAD, times=10)
    assert orphans.sweep(cluster, uid="c", namespaces=["osmo"]) == swept


def test_orphans_are_swept_through_whichever_backend_of_the_cluster_answers(db):
    cluster, away = old_cluster(), FakeCluster()
    uid = cluster.kube_system_uid()
    for kubeconfig in ("/etc/away", "/etc/here"):
        BackendFactory(cluster=ClusterFactory(uid=uid), kubeconfig=kubeconfig)
    orphan(cluster, SECRET, "s", group="0" * 32)
    with reached_through({"/etc/away": away, "/etc/here": cluster}), away.unreachable():
        sweep_cluster_orphans(uid)
    assert cluster.names(SECRET) == []


def test_orphans_of_a_backend_that_is_gone_are_swept_for_a_while(db):
    """A create may arrive after the last group was released and the backend's rows were tidied."""
    cluster = old_cluster()
    backend = BackendFactory(cluster__uid=cluster.kube_system_uid(), deleted_at=timezone.now())
    Backend.objects.update(cleaned_at=timezone.now() - timedelta(minutes=5))
    orphan(cluster, SECRET, "s", group="0" * 32)
    with reached_through({"": cluster}):
        sweep_cluster_orphans(backend.cluster_id)
        assert cluster.names(SECRET) == []
        Backend.objects.update(cleaned_at=timezone.now() - timedelta(days=1))
        orphan(cluster, SECRET, "s", group="0" * 32)
        sweep_cluster_orphans(backend.cluster_id)
    assert cluster.names(SECRET) == ["s"]
