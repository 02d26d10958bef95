"""What leaves the database, what never does, and that a sweep waits for nobody."""

import threading
from datetime import timedelta
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import OperationalError, connections, transaction
from django.utils import timezone

from pools.models import ConfigRevision, NodeFailure, SuspectNode
from pools.selectors import installation
from tests.builders.submissions import submission_request
from tests.factories import PoolFactory, TaskGroupFactory
from web.models import PersonalToken, RateBucket
from workflows.models import Event, KeptLog, NameCounter, ObservedPod, Task, TaskGroup, Workflow
from workflows.reconcile.end.orphans import namespaces_of
from workflows.selectors import UnknownWorkflow, submitters, tags_in_use, workflow_known_as
from workflows.services import retention
from workflows.services.sweep import purge_observations
from workflows.submission import submit as submission

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def kept_for_a_while(settings):
    settings.CELERY_BROKER_URL = "memory://"
    keep(settings, workflow_days=90, revision_days=365)


def keep(settings, **days):
    settings.ENV = settings.ENV.model_copy(update=days)


def ended(days, *, pool=None, **changes):
    """A group of two tasks whose workflow ended so many days ago, with a kept log and an event."""
    then = timezone.now() - timedelta(days=days)
    group = TaskGroupFactory(
        **({"pool": pool} if pool else {}),
        pods=2,
        status="COMPLETED",
        end_time=then,
        released_at=then,
        **changes,
    )
    Task.objects.filter(group=group).update(status="COMPLETED", end_time=then)
    Workflow.objects.filter(pk=group.workflow_id).update(status="COMPLETED", submit_time=then, end_time=then)
    task = group.tasks.first()
    KeptLog.objects.create(name=f"log-{task.pk}", task=task, stored_at=then)
    Event.objects.create(
        workflow_id=group.workflow_id,
        group=group,
        time=then,
        source="s",
        reason="Ended",
        message="m",
        dedupe=f"ended-{group.pk}",
    )
    return group


def kept():
    return set(Workflow.objects.values_list("pk", flat=True))


def test_an_old_workflow_goes_with_everything_that_belongs_to_it():
    installation()
    old, new = ended(91), ended(89)
    old.upstream.add(ended(91, workflow=old.workflow, name="second"))
    removed = retention.remove_old()
    assert kept() == {new.workflow_id}
    assert (removed["workflows"], removed["groups"], removed["tasks"]) == (1, 2, 4)
    assert Task.objects.count() == 2
    assert set(TaskGroup.objects.values_list("pk", flat=True)) == {new.pk}
    assert Event.objects.count() == 1
    assert KeptLog.objects.filter(task=None).count() == 2, "the store's sweep removes their objects"


@pytest.mark.parametrize(("own", "stays"), [(None, False), (0, True), (365, True), (30, False)])
def test_a_pool_keeps_its_own_for_as_long_as_it_says(own, stays):
    installation()
    group = ended(100, pool=PoolFactory(ended_workflow_days=own))
    retention.remove_old()
    assert (group.workflow_id in kept()) == stays


def test_nothing_is_kept_for_ever_by_a_pool_that_is_gone():
    installation()
    group = ended(91)
    Workflow.objects.filter(pk=group.workflow_id).update(pool_name="gone")
    assert retention.remove_old()["workflows"] == 1


def test_zero_keeps_for_ever(settings):
    installation()
    keep(settings, workflow_days=0, revision_days=0)
    ended(4000)
    assert not retention.remove_old()["workflows"]
    assert not retention.remove_revisions()


@pytest.mark.parametrize(
    "changes",
    [
        {"released_at": None},
        {"status": "RUNNING", "released_at": None, "end_time": None},
    ],
)
def test_a_group_that_is_not_released_keeps_its_workflow(changes):
    installation()
    group = ended(400)
    TaskGroup.objects.filter(pk=group.pk).update(**changes)
    retention.remove_old()
    assert kept() == {group.workflow_id}
    assert Task.objects.count() == 2
    assert Event.objects.count() == 1


def test_a_workflow_that_has_not_ended_stays_however_old_it_is():
    installation()
    group = ended(400)
    Workflow.objects.filter(pk=group.workflow_id).update(status="RUNNING")
    retention.remove_old()
    assert kept() == {group.workflow_id}


def test_a_row_that_somebody_holds_is_left_and_nobody_waits():
    installation()
    held, free = ended(100), ended(100)
    holds, done = threading.Event(), threading.Event()

    def hold():
        with transaction.atomic():
            Workflow.objects.select_for_update().get(pk=held.workflow_id)
            holds.set()
            done.wait(200)
        connections.close_all()

    holder = threading.Thread(target=hold)
    holder.start()
    assert holds.wait(200)
    assert retention.remove_old()["workflows"] == 1
    assert kept() == {held.workflow_id}
    assert held.tasks.count() == held.events.count() + 1 == 2, "nothing of it went"
    done.set()
    holder.join(200)
    assert retention.remove_old()["workflows"] == 1
    assert free.workflow_id not in kept()


def test_every_row_that_names_a_workflow_is_removed_before_it():
    """A table that is added and names one of these would end every sweep at its constraint."""
    removed = (Workflow, TaskGroup, Task)
    named = {
        (relation.related_model._meta.db_table, relation.field.name)
        for model in removed
        for relation in model._meta.get_fields(include_hidden=True)
        if relation.auto_created and not relation.concrete
    }
    assert named == {
        ("workflows_taskgroup", "workflow"),
        ("workflows_event", "workflow"),
        ("workflows_event", "group"),
        ("workflows_task", "group"),
        ("workflows_attempt", "group"),
        ("workflows_keptlog", "task"),
        ("workflows_taskgroup", "upstream"),
        ("workflows_taskgroup_upstream", "from_taskgroup"),
        ("workflows_taskgroup_upstream", "to_taskgroup"),
    }


def test_a_pool_whose_rows_are_locked_holds_up_no_other(monkeypatch):
    installation()
    first, second = (ended(100, pool=PoolFactory(name=name)) for name in ("a", "b"))
    remove = retention._remove_batch

    def fail(pool, *rest):
        if pool == "a":
            raise OperationalError("canceling statement due to lock timeout")
        return remove(pool, *rest)

    monkeypatch.setattr(retention, "_remove_batch", fail)
    retention.remove_old()
    assert kept() == {first.workflow_id}
    assert second.workflow_id not in kept()


def test_more_than_one_batch_goes_in_one_sweep(monkeypatch):
    installation()
    monkeypatch.setattr(retention, "WORKFLOWS", 2)
    monkeypatch.setattr(retention, "_CANDIDATES", retention._CANDIDATES.replace("LIMIT 200", "LIMIT 2"))
    pools = [PoolFactory(), PoolFactory()]
    for number in range(10):
        ended(100, pool=pools[number % 2])
    assert retention.remove_old()["workflows"] == 10


def test_a_number_is_not_given_again_after_its_workflow_was_removed():
    installation()
    PoolFactory(name="h100")
    ann = User.objects.create_user("ann")
    group = ended(100)
    workflow = Workflow.objects.get(pk=group.workflow_id)
    retention.remove_old()
    assert NameCounter.objects.get(base_name=workflow.base_name).last == workflow.number
    assert submission.submit(submission_request(ann))["name"] == f"train-{workflow.number + 1}"


def test_a_removed_workflow_is_unknown():
    installation()
    root = User.objects.create_superuser("root")
    name = Workflow.objects.get(pk=ended(100).workflow_id).name
    retention.remove_old()
    with pytest.raises(UnknownWorkflow):
        workflow_known_as(name, user=root, action="workflow:Read")


def revision(number, days, *, name="h100", kind="POOL"):
    row = ConfigRevision.objects.create(
        config_type=kind, revision=number, name=name, username="root", content={"number": number}
    )
    then = timezone.now() - timedelta(days=days)
    ConfigRevision.objects.filter(pk=row.pk).update(created_at=then)


def test_replaced_revisions_go_and_the_newest_and_those_of_kept_workflows_stay():
    installation()
    for number, days in ((1, 900), (2, 800), (3, 700), (4, 600), (5, 10)):
        revision(number, days)
    revision(6, 900, name="other")
    ended(750)  # while the second was in force
    assert retention.remove_revisions() == {"revisions": 2}
    assert set(ConfigRevision.objects.values_list("revision", flat=True)) == {2, 4, 5, 6}, (
        "the fourth was in force within the last year"
    )
    retention.remove_old()
    assert retention.remove_revisions() == {"revisions": 1}
    assert set(ConfigRevision.objects.values_list("revision", flat=True)) == {4, 5, 6}


def test_rows_that_mean_nothing_any_more_always_go():
    installation()
    now = timezone.now()
    for name, shift in (("old", -1), ("new", 1)):
        Session.objects.create(session_key=name, session_data="", expire_date=now + timedelta(hours=shift))
        RateBucket.objects.create(key=name, clear_at=now + timedelta(hours=shift))
    retention.remove_old()
    assert list(Session.objects.values_list("pk", flat=True)) == ["new"]
    assert list(RateBucket.objects.values_list("pk", flat=True)) == ["new"]


def test_failures_of_nodes_and_suspicions_go_when_their_time_is_over(settings):
    cluster = ended(1).backend.cluster
    now, window = timezone.now(), timedelta(seconds=settings.ENV.suspect_window_seconds)
    failure = {"cluster": cluster, "username": "ann", "fault": "node_lost"}
    suspect = {"cluster": cluster, "since": now, "groups": 2, "users": 2, "faults": []}
    for name, shift in (("old", -timedelta(hours=1)), ("new", timedelta(hours=1))):
        NodeFailure.objects.create(node=name, group_uuid=uuid4(), at=now - window + shift, **failure)
        SuspectNode.objects.create(node=name, until=now + shift, **suspect)
    retention.remove_old()
    assert [row.node for row in NodeFailure.objects.filter(cluster=cluster)] == ["new"]
    assert [row.node for row in SuspectNode.objects.filter(cluster=cluster)] == ["new"]


def test_expired_tokens_go_and_those_that_others_were_made_with_stay():
    ann = User.objects.create_user("ann")
    week = timedelta(days=8)
    tokens = {}
    for name, made_with, age in (("first", None, week), ("second", "first", -week), ("third", None, week)):
        row, _ = PersonalToken.objects.create(user=ann, name=name, made_with=tokens.get(made_with))
        PersonalToken.objects.filter(pk=row.pk).update(expiry=timezone.now() - age)
        tokens[name] = row
    assert retention.remove_old()["tokens"] == 1
    assert set(PersonalToken.objects.values_list("name", flat=True)) == {"first", "second"}


def test_observations_of_removed_groups_go(settings):
    installation()
    group = ended(100)
    then = timezone.now() - timedelta(hours=2)
    observed = {"cluster": group.backend.cluster, "namespace": "osmo", "uid": "u", "phase": "Running"}
    ObservedPod.objects.create(name="a", group_uuid=group.pk, seen_at=then, **observed)
    retention.remove_old()
    assert not ObservedPod.objects.exists()
    ObservedPod.objects.create(name="late", group_uuid=group.pk, seen_at=then, **observed)
    ObservedPod.objects.create(name="now", group_uuid=installation(), seen_at=timezone.now(), **observed)
    purge_observations()
    assert list(ObservedPod.objects.values_list("name", flat=True)) == ["now"]


def test_every_namespace_that_groups_of_a_cluster_had_is_swept():
    groups = [TaskGroupFactory() for _ in range(2)]
    group = groups[0]
    for name in ("first", "second", "first"):
        other = TaskGroupFactory(pool=group.workflow.backend.pools.get())
        TaskGroup.objects.filter(pk=other.pk).update(placement=other.placement | {"namespace": name})
    assert namespaces_of(group.backend.cluster_id) == {group.backend.namespace, "first", "second"}


def test_lists_of_users_are_whole_and_of_tags_in_pages():
    root = User.objects.create_superuser("root")
    assert submitters(root) == tags_in_use(root, limit=10, offset=0) == []
    for name, tags in (("bo", ["b", "a"]), ("ann", []), ("bo", ["c"])):
        group = TaskGroupFactory()
        Workflow.objects.filter(pk=group.workflow_id).update(submitted_by=name, tags=tags)
    assert submitters(root) == ["ann", "bo"]
    assert tags_in_use(root, limit=10, offset=0) == ["a", "b", "c"]
    assert tags_in_use(root, limit=1, offset=1) == ["b"]
