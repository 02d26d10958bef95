"""Two changes at once end as if one had come after the other."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from threading import Barrier

import pytest
import yaml
from django.db import OperationalError, connection, transaction

from pools import conditions, services
from pools.conditions import Condition
from pools.models import Backend, ConfigRevision, Pool
from pools.services import health
from pools.services.files import import_configuration
from pools.services.observed import record_sync
from pools.services.recording import configuration_change
from scheduling.errors import TopologyError
from workflows.services.sweep import note_sweep
from workflows.submission.rows import PoolChanged
from workflows.submission.rows import _lock_pool as lock_pool

pytestmark = pytest.mark.django_db(transaction=True)

ADMIN = services.ConfigChange(username="root")
KEYS = [{"key": "rack", "label": "example.com/rack"}]


@pytest.fixture(autouse=True)
def backend(clusters):
    return services.put_backend(name="b", document={"kubeconfig": "/etc/kai"}, change=ADMIN).value


def together(*changes):
    """Run changes at the same moment; the faults of those that were refused."""
    start = Barrier(len(changes))

    def run(change):
        start.wait(timeout=120)
        try:
            change()
        except TopologyError as error:
            return error
        finally:
            connection.close()
        return None

    with ThreadPoolExecutor(len(changes)) as threads:
        return [error for error in threads.map(run, changes) if error]


def save_keys(name="train", backend="b"):
    document = {"backend": backend, "topology_keys": KEYS}
    services.put_pool(name=name, document=document, change=ADMIN)


def take_scheduler(kind):
    changes = {"scheduler_settings": {"scheduler_type": kind}}
    services.post_backend(name="b", changes=changes, change=ADMIN)


@pytest.mark.parametrize("_round", range(8))
def test_keys_never_meet_a_scheduler_that_cannot_hold_them(_round):
    refused = together(save_keys, lambda: take_scheduler("default"))
    assert len(refused) == 1
    assert "topology.required" in refused[0].message
    kind = Backend.objects.get().scheduler_type
    assert (kind, Pool.objects.count()) in {("kai", 1), ("default", 0)}


@pytest.mark.parametrize("_round", range(4))
def test_a_pool_is_never_left_without_its_backend(_round):
    refused = together(
        lambda: services.put_pool(name="train", document={"backend": "b"}, change=ADMIN),
        lambda: services.delete_backend(name="b", change=ADMIN, force=False),
    )
    assert len(refused) == 1
    living = Backend.objects.filter(deleted_at=None).exists()
    assert living == Pool.objects.exists()


def test_revisions_count_without_a_gap():
    changes = [lambda n=n: save_keys(f"pool{n}") for n in range(8)]
    assert together(*changes) == []
    revisions = ConfigRevision.objects.filter(config_type="POOL").order_by("revision")
    assert [row.revision for row in revisions] == list(range(1, 9))
    assert {row.name: row.revision for row in revisions} == dict(Pool.objects.values_list("name", "revision"))


def test_two_registrations_of_one_pool_are_one_pool():
    assert together(save_keys, save_keys, save_keys) == []
    assert Pool.objects.get().topology_keys.count() == 1
    assert ConfigRevision.objects.filter(config_type="POOL").count() == 1


def test_of_two_editors_of_one_revision_one_is_told():
    save_keys()
    pool = Pool.objects.get()

    def edit(text):
        services.patch_pool(
            name="train",
            changes={"description": text},
            change=replace(ADMIN, expected_revision=pool.revision),
        )

    refused = together(lambda: edit("one"), lambda: edit("two"))
    assert len(refused) == 1
    assert Pool.objects.get().revision == pool.revision + 1


def test_two_orders_of_the_same_keys_leave_one_of_them():
    keys = [*KEYS, {"key": "host", "label": "kubernetes.io/hostname"}]
    other = [{"key": "zone", "label": "z"}, *KEYS]
    refused = together(
        *[
            lambda wanted=wanted: services.put_pool(
                name="train", document={"backend": "b", "topology_keys": wanted}, change=ADMIN
            )
            for wanted in (keys, other, keys, other)
        ]
    )
    assert refused == []
    found = [(row.key, row.position) for row in Pool.objects.get().topology_keys.order_by("position")]
    assert found in ([("rack", 0), ("host", 1)], [("zone", 0), ("rack", 1)])


ROUNDS = 40


def looping(*changes):
    """Run each change again and again, all at the same time; errors of the database are raised."""
    start = Barrier(len(changes))

    def run(change):
        start.wait(timeout=120)
        try:
            for turn in range(ROUNDS):
                change(turn)
        finally:
            connection.close()

    with ThreadPoolExecutor(len(changes)) as threads:
        for running in [threads.submit(run, change) for change in changes]:
            running.result()


@pytest.fixture
def second_backend(backend):
    """Before the first by name and after it by number, in the same cluster."""
    services.put_backend(name="a", document={"kubeconfig": "/etc/kai", "context": "a"}, change=ADMIN)
    return backend.cluster_id


def test_saving_pools_and_recording_a_sync_never_wait_for_each_other(second_backend):
    def save(turn):
        documents = {name: {"backend": name, "description": str(turn)} for name in ("a", "b")}
        services.put_pools(documents=documents, change=ADMIN)

    def record(turn):
        record_sync(second_backend, [Condition(type="Synced", status="True", reason=f"Turn{turn}")])

    looping(save, record, record)
    synced = Backend.objects.values_list("conditions", flat=True)
    assert {conditions.find(row, "Synced")["reason"] for row in synced} == {f"Turn{ROUNDS - 1}"}


def test_an_import_and_submissions_never_wait_for_each_other(second_backend):
    save_keys()

    def write(turn):
        backend = {"kubeconfig": "/etc/kai", "description": str(turn)}
        file = {"backends": {"b": backend}, "pools": {"train": {"backend": "b", "description": str(turn)}}}
        import_configuration(text=yaml.safe_dump(file), change=ADMIN)

    def submit(_turn):
        with suppress(PoolChanged), transaction.atomic():  # the import came first: it is checked anew
            lock_pool(Pool.objects.select_related("backend").get())

    looping(write, submit, submit)
    assert Pool.objects.get().description == str(ROUNDS - 1)


def test_the_sweep_notes_its_run_while_a_change_of_configuration_is_open():
    with configuration_change(ADMIN):
        [error] = in_thread(note_sweep) or [None]
    assert error is None
    [finding] = health.sweep()
    assert finding.line.startswith("ok")


def in_thread(work):
    """Errors of work that waits no longer than two seconds for a lock."""

    def run():
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '2s'")
            work()
        except OperationalError as error:
            return [error]
        finally:
            connection.close()
        return []

    with ThreadPoolExecutor(1) as threads:
        return threads.submit(run).result()
