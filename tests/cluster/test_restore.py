"""A restore of the whole database beside a real API server, as the page about backups describes it.

The backup is a copy of the database by PostgreSQL. ``tests/db/test_backup_page.py`` runs the page's commands.
"""

from contextlib import contextmanager
from datetime import timedelta
from io import StringIO
from uuid import uuid4

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection, connections
from django.db.models import F
from django.db.models.functions import Now

from cluster.interface import FIELD_MANAGER
from cluster.kinds import CONFIG_MAP, NAMESPACE, POD
from pools.clusters import guard
from pools.clusters.connect import cluster_for
from pools.conditions import status_of
from pools.models import Backend, ClusterGuard
from pools.selectors import installation
from pools.services.sync import sync_cluster
from pools.tasks import probe_backend
from scheduling.names import INSTALLATION_LABEL
from tests.builders.waiting import until
from tests.factories import BackendFactory, PoolFactory, TaskGroupFactory
from tests.fakes.kinds import KAI_POD_GROUP, KAI_QUEUE, KAI_TOPOLOGY
from workflows.logs.archive import keep_before_delete
from workflows.models import Event, TaskGroup
from workflows.reconcile.end import orphans
from workflows.reconcile.run import run
from workflows.services.lease import take_lease
from workflows.tasks import sweep_cluster_orphans

pytestmark = pytest.mark.django_db(transaction=True)

SECONDS = 150


@contextmanager
def server():
    """A connection to PostgreSQL outside the test's database, which nobody uses meanwhile."""
    settings = connection.settings_dict
    connections.close_all()
    address = {"host": settings["HOST"], "port": settings["PORT"]}
    login = {"user": settings["USER"], "password": settings["PASSWORD"]}
    with psycopg.connect(**address, **login, dbname="postgres", autocommit=True) as outside:
        yield outside


def copy(source, target):
    """Replace one database by a copy of another."""
    with server() as outside:
        outside.execute(f'DROP DATABASE IF EXISTS "{target}" WITH (FORCE)')
        outside.execute(f'CREATE DATABASE "{target}" TEMPLATE "{source}"')


@pytest.fixture
def database():
    """The name of the test's database; its backup has ``_backup`` behind it and goes in the end."""
    name = connection.settings_dict["NAME"]
    yield name
    with server() as outside:
        outside.execute(f'DROP DATABASE IF EXISTS "{name}_backup" WITH (FORCE)')


@pytest.fixture
def backend(access, real, database):
    namespace = f"restored-{uuid4().hex[:8]}"
    uid = real.kube_system_uid()
    backend = BackendFactory(kubeconfig=access.kubeconfig, namespace=namespace, cluster__uid=uid)
    PoolFactory(backend=backend)
    probe_backend(backend.pk)
    sync_cluster(uid)
    yield backend
    Backend.objects.update(deleted_at=Now())
    adopt()
    TaskGroup.objects.all().delete()
    sync_cluster(uid)
    real.delete(NAMESPACE, namespace, uid=None)


def adopt():
    out = StringIO()
    call_command("adopt", yes=True, stdout=out)
    return out.getvalue()


def time_passes():
    """Long enough for the next raise of the epoch."""
    ClusterGuard.objects.update(raised_at=F("raised_at") - timedelta(minutes=1))
    guard.forget()


def reconcile(group):
    """Reconcile a group once, due or not."""
    TaskGroup.objects.filter(pk=group.pk).update(next_reconcile_at=Now())
    lease = take_lease(group.pk)
    return run(lease, cluster=cluster_for(lease.backend), archive=keep_before_delete)


def new_group(backend):
    return TaskGroupFactory(pool=backend.pools.get(), pods=2)


def begin_work(backend):
    """Let the service create a group; a new namespace has no service account for a moment."""
    time_passes()
    group = new_group(backend)

    def created():
        reconcile(group)
        return TaskGroup.objects.get(pk=group.pk).created_in_cluster_at

    until(created)
    time_passes()
    probe_backend(backend.pk)


def written(real, namespace):
    """(kind, name) -> (uid, data, what the service's field manager wrote and when) of all that it writes.

    The API server is everybody's: schedulers write on the same objects, other installations have their own.
    """
    objects = [
        (kind.name, obj)
        for kind, place in (
            (POD, namespace),
            (KAI_POD_GROUP, namespace),
            (CONFIG_MAP, namespace),
            (KAI_QUEUE, ""),
            (KAI_TOPOLOGY, ""),
        )
        for obj in real.list(kind, namespace=place).items
    ]
    return {
        (kind, obj["metadata"]["name"]): (obj["metadata"]["uid"], obj.get("data"), own_writes(obj))
        for kind, obj in objects
        if own_writes(obj) and (obj["metadata"].get("namespace") or is_ours(obj))
    }


def own_writes(obj):
    return [entry for entry in obj["metadata"]["managedFields"] if entry["manager"] == FIELD_MANAGER]


def is_ours(obj):
    return obj["metadata"].get("labels", {}).get(INSTALLATION_LABEL) == installation().hex


def do_everything(backend):
    """What beat, workers and operators do: probes, syncs, sweeps, reconciliations, repairs."""
    Backend.objects.filter(pk=backend.pk).update(conditions=[])
    group = new_group(backend)
    probe_backend(backend.pk)
    sync_cluster(backend.cluster_id)
    sweep_cluster_orphans(backend.cluster_id)
    reconcile(group)
    with pytest.raises(SystemExit):
        call_command("doctor", grace=0, repair=True, stdout=StringIO())
    return group


@pytest.fixture
def no_grace(monkeypatch):
    """An object that no row wants is an orphan at once."""
    monkeypatch.setattr(orphans, "GRACE", timedelta(minutes=-1))


def test_the_database_of_yesterday_leaves_running_work_alone_until_it_is_adopted(
    real, backend, database, no_grace
):
    copy(database, f"{database}_backup")
    begin_work(backend)
    before = written(real, backend.namespace)
    assert {kind for kind, _ in before} >= {"PodGroup", "ConfigMap", "Queue"}
    pods = {name for kind, name in before if kind == "Pod"}
    assert len(pods) == 2

    copy(f"{database}_backup", database)
    guard.forget()
    assert TaskGroup.objects.count() == 0
    group = do_everything(backend)
    assert written(real, backend.namespace) == before
    assert status_of(Backend.objects.get().conditions, "WritesAllowed") == "False"
    assert "adopt" in TaskGroup.objects.get(pk=group.pk).waiting_reason
    assert Event.objects.filter(reason="WritesSuspended").count() == 1

    out = StringIO()
    call_command("adopt", stdout=out)
    assert all(name in out.getvalue() for name in pods)
    assert written(real, backend.namespace) == before
    adopt()
    sweep_cluster_orphans(backend.cluster_id)
    until(lambda: not pods & {name for kind, name in written(real, backend.namespace) if kind == "Pod"})
    probe_backend(backend.pk)
    assert status_of(Backend.objects.get().conditions, "WritesAllowed") == "True"


@contextmanager
def another_process(database):
    """This process, on another database and with nothing in memory."""
    original = connection.settings_dict["NAME"]
    _use(database)
    try:
        yield
    finally:
        _use(original)


def _use(database):
    connections.close_all()
    connection.settings_dict["NAME"] = database
    guard.forget()


def test_a_copy_beside_the_original_writes_nothing_and_the_original_goes_on(
    real, backend, database, no_grace
):
    copy(database, f"{database}_backup")
    begin_work(backend)
    before = written(real, backend.namespace)
    with another_process(f"{database}_backup"):
        do_everything(backend)
    assert written(real, backend.namespace) == before
    begin_work(backend)
    assert set(before) < set(written(real, backend.namespace))
