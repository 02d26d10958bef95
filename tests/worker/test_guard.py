"""A database that was put back, or copied, writes nothing in a cluster until it is let to take over."""

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone

from cluster import guarded
from cluster.connection import Access
from cluster.errors import (
    AlreadyExists,
    ClusterUnreachable,
    Invalid,
    NotServed,
    RequestForbidden,
    ServerFault,
    TooManyRequests,
    WriteConflict,
    WritesSuspended,
    WritesUnconfirmed,
)
from cluster.guarded import PERMIT_SECONDS, GuardedCluster
from cluster.kinds import CONFIG_MAP, NAMESPACE, POD
from doctor.refusals import refusals
from pools.clusters import guard
from pools.clusters.connect import cluster_for
from pools.clusters.guard import CONFIG_MAP_NAME, Guard
from pools.conditions import find
from pools.models import Backend, ClusterGuard, Installation
from pools.services import health
from pools.tasks import probe_backend
from tests.builders.hostile import HOSTILE, IN_ONE_LINE
from tests.factories import BackendFactory
from tests.fakes.kai import reached_through
from tests.worker.world import fresh
from workflows.logs.archive import keep_before_delete
from workflows.models import Event, TaskGroup
from workflows.reconcile.end import orphans
from workflows.reconcile.run import run
from workflows.reconcile.view.outcomes import Retry
from workflows.services.gauges import read
from workflows.services.lease import take_lease
from workflows.tasks import sweep_cluster_orphans

HERE = Access("/etc/kai", "")


@pytest.fixture(autouse=True)
def fresh_process():
    guard.forget()
    yield
    guard.forget()


@pytest.fixture(autouse=True)
def reached(world):
    with reached_through({"": world.cluster, "/etc/kai": world.cluster}):
        yield


@pytest.fixture
def backend(world):
    return BackendFactory(cluster__uid=world.uid, kubeconfig="/etc/kai", namespace="osmo")


def here(world):
    return Guard(HERE, world.cluster)


def row():
    return ClusterGuard.objects.get()


def reconcile(group):
    """Reconcile a group once through the guarded cluster."""
    TaskGroup.objects.filter(pk=group.pk).update(next_reconcile_at=Now())
    lease = take_lease(group.pk)
    return run(lease, cluster=cluster_for(lease.backend), archive=keep_before_delete)


def time_passes():
    """Long enough for the next raise."""
    ClusterGuard.objects.update(raised_at=F("raised_at") - timedelta(seconds=60))
    guard.forget()


def saved():
    return list(ClusterGuard.objects.values())


def restore(rows):
    """Put the table back, as a restored database has it."""
    ClusterGuard.objects.all().delete()
    ClusterGuard.objects.bulk_create(ClusterGuard(**values) for values in rows)


def mark(world):
    [obj] = [o for o in world.cluster.all(CONFIG_MAP) if o["metadata"]["name"] == CONFIG_MAP_NAME]
    return guard._mark(obj["data"][Installation.objects.get().uuid.hex])


def test_the_first_write_makes_the_mark_and_time_raises_it(world, backend):
    cluster_for(backend).create(POD, {"metadata": {"name": "p", "namespace": "osmo"}})
    assert (mark(world).epoch, row().epoch) == (1, 1)
    here(world).permit("osmo", deletes=False)
    assert mark(world).epoch == 1
    time_passes()
    here(world).permit("osmo", deletes=False)
    assert (mark(world).epoch, row().epoch, row().nonce) == (2, 2, mark(world).nonce)


def test_a_check_costs_no_call_while_its_reading_is_young(world, backend):
    here(world).permit("osmo", deletes=True)
    world.cluster.calls.clear()
    for _ in range(20):
        here(world).permit("osmo", deletes=True)
        here(world).permit("", deletes=False)
    assert world.cluster.calls == []


@pytest.mark.parametrize("raises", [1, 3])
def test_a_database_that_was_put_back_writes_nothing(world, backend, raises):
    here(world).permit("osmo", deletes=False)
    yesterday = saved()
    for _ in range(raises):
        time_passes()
        here(world).permit("osmo", deletes=False)
    restore(yesterday)
    guard.forget()
    cluster, before = cluster_for(backend), world.cluster.objects
    for write in (
        lambda: cluster.create(POD, {"metadata": {"name": "p", "namespace": "osmo"}}),
        lambda: cluster.create_many(POD, [{"metadata": {"name": "p", "namespace": "osmo"}}], deadline=1e12),
        lambda: cluster.delete(CONFIG_MAP, CONFIG_MAP_NAME, uid=None, namespace="osmo"),
        lambda: cluster.create(NAMESPACE, {"metadata": {"name": "osmo"}}),
    ):
        with pytest.raises(WritesSuspended, match="newer state"):
            write()
    assert world.cluster.objects == before


def test_a_running_worker_notices_at_its_next_delete(world, backend):
    """Its reading of the mark is young, and its database was replaced under it."""
    here(world).permit("osmo", deletes=False)
    yesterday = saved()
    time_passes()
    here(world).examine("osmo")
    here(world).examine("osmo")
    restore(yesterday)
    with pytest.raises(WritesSuspended):
        here(world).permit("osmo", deletes=True)


def test_of_two_copies_one_goes_on(world, backend):
    here(world).permit("osmo", deletes=False)
    original = saved()
    time_passes()
    here(world).permit("osmo", deletes=False)
    copy = saved()
    restore(original)
    guard.forget()
    assert here(world).examine("osmo").reason == "HigherEpoch"
    restore(copy)
    assert here(world).examine("osmo").allowed


def test_two_copies_at_one_epoch_have_two_nonces(world, backend):
    here(world).permit("osmo", deletes=False)
    ClusterGuard.objects.update(nonce="0" * 32)
    guard.forget()
    assert here(world).examine("osmo").reason == "AnotherNonce"


def test_workers_of_one_database_do_not_stop_each_other(world, backend):
    first, second = here(world), here(world)
    for _ in range(4):
        time_passes() if ClusterGuard.objects.exists() else None
        first.permit("osmo", deletes=True)
        second.permit("osmo", deletes=True)
    assert row().epoch == mark(world).epoch == 4


@pytest.mark.parametrize("is_applied", [True, False])
def test_a_worker_that_dies_within_a_raise_leaves_the_right_to_the_next(world, backend, is_applied):
    here(world).permit("osmo", deletes=False)
    time_passes()
    world.cluster.fail(ClusterUnreachable("cut"), verb="patch", kind=CONFIG_MAP, applied=is_applied)
    with pytest.raises(ClusterUnreachable):
        here(world).examine("osmo")
    assert row().pending_nonce
    guard.forget()
    assert here(world).examine("osmo").allowed
    time_passes()
    here(world).permit("osmo", deletes=False)
    assert (mark(world).epoch, mark(world).nonce) == (row().epoch, row().nonce)


def test_a_conflict_with_another_writer_is_read_again(world, backend):
    here(world).permit("osmo", deletes=False)
    time_passes()
    world.cluster.fail(WriteConflict("changed"), verb="patch", kind=CONFIG_MAP)
    assert here(world).examine("osmo").allowed


def test_a_mark_deleted_by_hand_is_written_again_unless_the_database_is_old(world, backend):
    here(world).permit("osmo", deletes=False)
    world.cluster.remove(CONFIG_MAP, CONFIG_MAP_NAME, namespace="osmo")
    guard.forget()
    assert here(world).examine("osmo").allowed
    assert mark(world).epoch == row().epoch == 2
    world.cluster.remove(CONFIG_MAP, CONFIG_MAP_NAME, namespace="osmo")
    ClusterGuard.objects.update(confirmed_at=timezone.now() - timedelta(hours=3))
    guard.forget()
    assert here(world).examine("osmo").reason == "Missing"
    assert world.cluster.all(CONFIG_MAP) == []


def test_a_backend_that_moves_has_a_mark_in_both_namespaces(world, backend):
    here(world).permit("osmo", deletes=False)
    Backend.objects.update(namespace="elsewhere")
    guard.forget()
    here(world).permit("osmo", deletes=False)
    here(world).permit("", deletes=False)
    assert {obj["metadata"]["namespace"] for obj in world.cluster.all(CONFIG_MAP)} == {"osmo", "elsewhere"}


def test_one_refused_namespace_stops_the_whole_cluster(world, backend):
    second = BackendFactory(cluster=backend.cluster, kubeconfig="/etc/kai", context="b", namespace="second")
    here(world).permit("osmo", deletes=False)
    here(world).examine("second")
    ClusterGuard.objects.filter(namespace="second").update(epoch=0)
    guard.forget()
    probe_backend(second.pk)
    guard.forget()
    for namespace in ("osmo", "second", ""):
        with pytest.raises(WritesSuspended):
            here(world).permit(namespace, deletes=False)
    call_command("adopt", backend=second.name, yes=True, stdout=StringIO())
    for namespace in ("osmo", "second", ""):
        here(world).permit(namespace, deletes=False)


def test_other_namespaces_cost_no_call(world, backend):
    for number in range(20):
        BackendFactory(
            cluster=backend.cluster, kubeconfig="/etc/kai", context=f"c{number}", namespace=f"n{number}"
        )
    here(world).permit("osmo", deletes=True)
    world.cluster.calls.clear()
    guard.forget()
    here(world).permit("osmo", deletes=True)
    calls = [(call.verb, call.kind) for call in world.cluster.calls if call.kind != NAMESPACE]
    assert calls == [("get", CONFIG_MAP)]


def test_an_object_of_the_cluster_needs_one_confirmed_namespace(world, backend):
    world.cluster.fail(ClusterUnreachable("cut"), kind=CONFIG_MAP, times=1)
    with pytest.raises(ClusterUnreachable):
        here(world).permit("", deletes=False)
    here(world).permit("", deletes=False)
    Backend.objects.update(kubeconfig="/etc/other")
    guard.forget()
    with pytest.raises(WritesUnconfirmed):
        here(world).permit("", deletes=False)


def test_a_namespace_without_rights_stops_only_itself(world, backend):
    BackendFactory(cluster=backend.cluster, kubeconfig="/etc/kai", context="b", namespace="locked")
    refusal = RequestForbidden("may not create")
    world.cluster.fail(refusal, verb="create", kind=NAMESPACE, name="locked", times=9)
    here(world).permit("osmo", deletes=False)
    with pytest.raises(WritesUnconfirmed):
        here(world).permit("locked", deletes=False)


def test_a_cluster_that_falls_silent_while_it_is_probed_leaves_what_was_known_of_its_mark(world, backend):
    """Otherwise its outage would call for somebody who takes over a copy of the database."""
    probe_backend(backend.pk)
    before = find(Backend.objects.get(pk=backend.pk).conditions, "WritesAllowed")
    assert before["status"] == "True"
    guard.forget()
    world.cluster.fail(ClusterUnreachable("no route"), kind=CONFIG_MAP, times=9)
    probe_backend(backend.pk)
    assert find(Backend.objects.get(pk=backend.pk).conditions, "WritesAllowed") == before


def test_without_the_right_to_the_mark_nothing_is_written(world, backend):
    world.cluster.fail(RequestForbidden("configmaps is forbidden"), kind=CONFIG_MAP, times=9)
    with pytest.raises(WritesUnconfirmed, match="configmaps is forbidden"):
        cluster_for(backend).create(POD, {"metadata": {"name": "p", "namespace": "osmo"}})
    assert world.pods() == []
    probe_backend(backend.pk)
    condition = find(Backend.objects.get(pk=backend.pk).conditions, "WritesAllowed")
    assert (condition["status"], condition["reason"]) == ("Unknown", "Forbidden")
    assert (0, backend.name) in read()["osmo_backend_writes_allowed"]
    assert backend.name in {finding.backend for finding in health.guards()}


@pytest.mark.parametrize(
    "error",
    [
        ClusterUnreachable("cut", maybe_applied=True),
        ServerFault("etcd"),
        Invalid("the ConfigMap is immutable"),
        AlreadyExists("another namespace"),
        NotServed("a proxy's page"),
        RequestForbidden("no"),
        TooManyRequests("later"),
    ],
    ids=lambda error: error.code,
)
@pytest.mark.parametrize("verb", ["get", "patch"])
def test_no_error_about_the_mark_is_a_permission_or_ends_a_group(world, backend, verb, error):
    here(world).permit("osmo", deletes=False)
    group = world.group(pods=1, pool=world.pool(backend={"kubeconfig": "/etc/kai", "context": "y"}))
    ClusterGuard.objects.update(confirmed_at=F("confirmed_at") - timedelta(minutes=5))
    world.cluster.fail(error, verb=verb, kind=CONFIG_MAP, times=99)
    for _ in range(2):
        guard.forget()
        assert isinstance(reconcile(group), Retry)
    assert world.pods() == []
    assert fresh(group).status == "PROCESSING"
    assert not ClusterGuard.objects.exclude(refusal="")


def test_two_installations_share_a_namespace(world, backend):
    here(world).permit("osmo", deletes=False)
    first = mark(world)
    Installation.objects.all().delete()
    ClusterGuard.objects.all().delete()
    guard.forget()
    here(world).permit("osmo", deletes=False)
    [obj] = world.cluster.all(CONFIG_MAP)
    assert len(obj["data"]) == 2
    assert first in [guard._mark(text) for text in obj["data"].values()]


NO_MARKS = {
    "a list": "[]",
    "endless": '{"epoch": Infinity, "nonce": "a"}',
    "deep": "[" * 100_000,
    "above every column": f'{{"epoch": {2**63}, "nonce": "a"}}',
    "the last that a column has": f'{{"epoch": {2**63 - 1}, "nonce": "a"}}',
    "below every epoch": '{"epoch": -1, "nonce": "a"}',
}


@pytest.mark.parametrize("text", NO_MARKS.values(), ids=NO_MARKS)
def test_a_mark_that_is_no_mark_is_refused_and_can_be_adopted(world, backend, text):
    here(world).permit("osmo", deletes=False)
    uuid = Installation.objects.get().uuid.hex
    world.cluster.edit(
        CONFIG_MAP, CONFIG_MAP_NAME, lambda obj: obj["data"].update({uuid: text}), namespace="osmo"
    )
    guard.forget()
    assert here(world).examine("osmo").reason == "Unreadable"
    here(world).adopt("osmo")
    assert here(world).examine("osmo").allowed


def test_the_highest_mark_that_is_read_can_be_adopted(world, backend):
    here(world).permit("osmo", deletes=False)
    uuid = Installation.objects.get().uuid.hex
    highest = json.dumps({"epoch": guard.MOST_EPOCH - 1, "nonce": "a"})
    world.cluster.edit(
        CONFIG_MAP, CONFIG_MAP_NAME, lambda obj: obj["data"].update({uuid: highest}), namespace="osmo"
    )
    guard.forget()
    assert here(world).examine("osmo").reason == "HigherEpoch"
    here(world).adopt("osmo")
    assert row().epoch == guard.MOST_EPOCH


@pytest.mark.parametrize("error", [RequestForbidden("no"), Invalid("a webhook denied it")])
def test_a_cluster_that_forbids_the_raise_permits_nothing_until_one_ends(world, backend, error):
    here(world).permit("osmo", deletes=False)
    time_passes()
    world.cluster.fail(error, verb="patch", kind=CONFIG_MAP, times=3)
    for _ in range(3):
        guard.forget()
        with pytest.raises(WritesUnconfirmed):
            here(world).permit("osmo", deletes=False)
    here(world).permit("osmo", deletes=False)
    assert mark(world).epoch == row().epoch == 2


@pytest.fixture
def restored(world, backend):
    """A group that runs and is unknown to the database, which was put back to a time before it."""
    here(world).permit("osmo", deletes=False)
    yesterday = saved()
    group = world.group(
        pods=2, pool=world.pool(nvlink=True, backend={"kubeconfig": "/etc/kai", "context": "x"})
    )
    world.settle()
    time_passes()
    here(world).permit("osmo", deletes=False)
    for obj in world.cluster.all(POD):
        created = {"creationTimestamp": "2020-01-01T00:00:00Z"}
        world.cluster.put(POD, obj | {"metadata": obj["metadata"] | created})
    pods = world.pods()
    group.workflow.delete()
    restore(yesterday)
    guard.forget()
    return pods


def test_running_work_that_a_restored_database_does_not_know_is_left_alone(world, backend, restored):
    with pytest.raises(WritesSuspended):
        orphans.sweep(cluster_for(backend), uid=world.uid, namespaces={"osmo"})
    sweep_cluster_orphans(world.uid)
    assert world.pods() == restored


def test_it_is_on_the_backend_in_the_metric_and_in_readyz(world, backend, restored):
    probe_backend(backend.pk)
    condition = find(Backend.objects.get(pk=backend.pk).conditions, "WritesAllowed")
    assert (condition["status"], condition["reason"]) == ("False", "HigherEpoch")
    assert "manage.py adopt" in condition["message"]
    assert (0, backend.name) in read()["osmo_backend_writes_allowed"]
    assert backend.name in {finding.backend for finding in health.guards()}


def test_a_group_that_waits_for_it_says_so_in_its_reason_and_its_timeline(world, backend, restored):
    group = world.group(pods=1, pool=world.pool(backend={"kubeconfig": "/etc/kai", "context": "y"}))
    outcome = reconcile(group)
    assert outcome.slow
    assert "newer state" in fresh(group).waiting_reason
    assert fresh(group).next_reconcile_at > timezone.now()
    [event] = Event.objects.filter(reason="WritesSuspended")
    assert event.warning
    assert world.pods() == restored
    call_command("adopt", backend=backend.name, yes=True, stdout=StringIO())
    assert fresh(group).next_reconcile_at <= timezone.now()
    reconcile(group)
    assert len(world.pods()) == len(restored) + 1


def test_adopt_shows_what_it_would_delete_and_takes_over_on_confirmation(world, backend, restored):
    out = StringIO()
    call_command("adopt", backend=backend.name, stdout=out)
    assert "HigherEpoch" in out.getvalue()
    assert all(pod in out.getvalue() for pod in restored)
    assert "repeat with --yes" in out.getvalue()
    assert world.pods() == restored
    out = StringIO()
    call_command("adopt", backend=backend.name, yes=True, stdout=out)
    assert f"{backend.name}: adopted, epoch 3." in out.getvalue()
    assert here(world).examine("osmo").allowed
    assert orphans.sweep(cluster_for(backend), uid=world.uid, namespaces={"osmo"}) == len(restored)
    out = StringIO()
    call_command("adopt", stdout=out)
    assert "Nothing to adopt" in out.getvalue()


def test_adopt_goes_on_past_a_cluster_that_cannot_be_asked(world, backend, restored):
    unasked = BackendFactory(cluster=backend.cluster, kubeconfig="/etc/kai", context="z", namespace="locked")
    world.cluster.fail(RequestForbidden(HOSTILE), verb="create", kind=NAMESPACE, name="locked", times=9)
    out, errors = StringIO(), StringIO()
    with pytest.raises(SystemExit):
        call_command("adopt", yes=True, stdout=out, stderr=errors)
    assert errors.getvalue() == f"{unasked.name}: its mark could not be read: {IN_ONE_LINE}\n"
    assert f"{backend.name}: adopted" in out.getvalue()


@pytest.fixture
def moved(world, backend):
    """A backend that has another namespace now, and a group of it that runs in the former one.

    Somebody wrote another mark there.
    """
    group = world.group(pods=1, pool=world.pool(backend={"kubeconfig": "/etc/kai", "context": "x"}))
    here(world).permit("osmo", deletes=False)
    Backend.objects.update(namespace="present")
    here(world).permit("present", deletes=False)
    uuid = Installation.objects.get().uuid.hex
    theirs = {uuid: json.dumps({"epoch": 7, "nonce": "f" * 32})}
    world.cluster.edit(CONFIG_MAP, CONFIG_MAP_NAME, lambda obj: obj["data"].update(theirs), namespace="osmo")
    guard.forget()
    with pytest.raises(WritesSuspended):
        here(world).permit("osmo", deletes=True)
    return group


def test_a_mark_that_is_refused_in_a_former_namespace_can_be_adopted(world, backend, moved):
    out = StringIO()
    call_command("adopt", yes=True, stdout=out)
    assert out.getvalue().count("(namespace osmo), HigherEpoch") == 1
    assert "adopted, epoch 8." in out.getvalue()
    for namespace in ("osmo", "present"):
        here(world).permit(namespace, deletes=True)
    out = StringIO()
    call_command("adopt", stdout=out)
    assert "Nothing to adopt" in out.getvalue()


def test_a_mark_in_a_former_namespace_is_read_though_nobody_has_met_it(world, backend, moved):
    """A database that was just put back has recorded no refusal."""
    ClusterGuard.objects.update(refusal="")
    guard.forget()
    out = StringIO()
    call_command("adopt", yes=True, stdout=out)
    assert out.getvalue().count("(namespace osmo), HigherEpoch") == 1
    here(world).permit("osmo", deletes=True)


def test_the_consistency_check_finds_a_refusal_in_a_former_namespace_while_work_is_there(
    world, backend, moved
):
    def refused():
        return [refusal.message for refusal in refusals("")]

    [message] = refused()
    assert '"osmo"' in message
    assert "newer state" in message
    TaskGroup.objects.filter(pk=moved.pk).update(status="CANCELED", released_at=Now())
    assert refused() == []


def test_the_consistency_check_says_that_nothing_is_written(world, backend, restored):
    probe_backend(backend.pk)
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("doctor", "--json", "--grace", "0", "--repair", stdout=out)
    report = json.loads(out.getvalue())
    assert ("stuck", "writes-suspended", backend.name) in {
        (finding["kind"], finding["rule"], finding["backend"]) for finding in report["findings"]
    }
    assert report["repaired"]["deleted"] == 0
    assert world.pods() == restored


def test_a_write_whose_permit_took_too_long_is_not_sent(world, monkeypatch):
    times = iter([0.0, 2 * PERMIT_SECONDS])
    monkeypatch.setattr(guarded, "boot_seconds", lambda: next(times))
    cluster = GuardedCluster(world.cluster, lambda namespace, *, deletes: None)
    with pytest.raises(WritesUnconfirmed):
        cluster.create(POD, {"metadata": {"name": "p", "namespace": "osmo"}})
    assert world.pods() == []
    assert cluster.call_seconds == world.cluster.call_seconds + PERMIT_SECONDS
