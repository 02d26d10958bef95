"""Submissions at the same moment: numbers are given once, a repeated key makes one workflow."""

import pytest

from pools import services
from pools.models import Backend
from scheduling.errors import Conflict, InvalidSpec, NotFound
from tests.api.workflows.specs import alone, text
from tests.builders.submissions import at_once, submission_request
from tests.factories import PlatformFactory, PoolFactory
from workflows.models import Task, Workflow
from workflows.submission import rows
from workflows.submission import submit as submission

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def no_broker(settings):
    settings.CELERY_BROKER_URL = "memory://"


def test_each_submission_gets_a_number_of_its_own(ann):
    PoolFactory(name="h100")
    replies = at_once(8, lambda: submission.submit(submission_request(ann)))
    assert sorted(reply["name"] for reply in replies) == [f"train-{n}" for n in range(1, 9)]
    assert Workflow.objects.count() == Task.objects.count() == 8


def test_one_key_at_the_same_moment_makes_one_workflow(ann):
    PoolFactory(name="h100")
    replies = at_once(6, lambda: submission.submit(submission_request(ann, idempotency_key="k")))
    assert replies == [replies[0]] * 6
    assert replies[0]["name"] == "train-1"
    assert Workflow.objects.count() == Task.objects.count() == 1


def test_a_backend_disabled_while_the_checks_ran_takes_nothing(ann, monkeypatch):
    pool = PoolFactory(name="h100")
    write = submission.write

    def disable_first(accepted):
        Backend.objects.filter(pk=pool.backend_id).update(enabled=False)
        return write(accepted)

    monkeypatch.setattr(submission, "write", disable_first)
    with pytest.raises(Conflict):
        submission.submit(submission_request(ann))
    assert not Workflow.objects.exists()


OPERATOR = services.ConfigChange(username="root", grants=None)


@pytest.fixture
def during(monkeypatch):
    """Let something happen once between the checks of a submission and its writing."""

    def arrange(act):
        write, left = submission.write, [act]

        def act_first(accepted):
            if left:
                left.pop()()
            return write(accepted)

        monkeypatch.setattr(submission, "write", act_first)

    return arrange


def change(**fields):
    services.patch_pool(name="h100", changes=fields, change=OPERATOR)


@pytest.fixture
def pool():
    pool = PoolFactory(name="h100", platforms=())
    PlatformFactory(pool=pool, name="gpu", privileged_allowed=True)
    change(description="as the history begins")  # the revision of a factory is none of the history
    return pool


def test_maintenance_that_began_while_the_checks_ran_takes_nothing(ann, pool, during):
    during(lambda: change(enable_maintenance=True))
    with pytest.raises(Conflict, match="maintenance"):
        submission.submit(submission_request(ann))
    assert not Workflow.objects.exists()


def test_privilege_that_was_taken_away_while_the_checks_ran_is_not_had(ann, pool, during):
    during(lambda: change(platforms={"gpu": {"privileged_allowed": False}}))
    with pytest.raises(InvalidSpec) as refused:
        submission.submit(submission_request(ann, text=text(alone(privileged=True))))
    assert [fault.code for fault in refused.value.faults] == ["privileged_not_allowed"]
    assert not Workflow.objects.exists()


def test_a_pool_that_was_renamed_while_the_checks_ran_is_not_there(ann, pool, during):
    during(lambda: services.rename_pool(name="h100", new_name="b200", change=OPERATOR, force=True))
    with pytest.raises(NotFound):
        submission.submit(submission_request(ann))
    assert not Workflow.objects.exists()


def test_a_harmless_change_while_the_checks_ran_is_followed(ann, pool, during):
    during(lambda: change(description="new"))
    assert submission.submit(submission_request(ann))["name"] == "train-1"
    pool.refresh_from_db()
    assert Workflow.objects.get().pool_revision == pool.revision > 0


def test_a_template_that_was_changed_while_the_checks_ran_is_the_one_that_is_frozen(ann, pool, during):
    def put(name):
        document = {"spec": {"runtimeClassName": name}}
        return services.put_pod_template(name="class", document=document, change=OPERATOR)

    put("old")
    change(platforms={"gpu": {"override_pod_template": ["class"]}})
    during(lambda: put("new"))
    submission.submit(submission_request(ann))
    placement = Workflow.objects.get().groups.get().placement
    assert placement["templates"]["gpu"]["pod"]["spec"]["runtimeClassName"] == "new"


def test_a_pool_that_changes_all_the_time_is_a_conflict(ann, pool, monkeypatch):
    write, changes = submission.write, []

    def change_first(accepted):
        changes.append(change(description=f"text {len(changes)}"))
        return write(accepted)

    monkeypatch.setattr(submission, "write", change_first)
    with pytest.raises(Conflict, match="submit again"):
        submission.submit(submission_request(ann))
    assert len(changes) == submission.CHANGES_FOLLOWED + 1
    assert not Workflow.objects.exists()


def test_a_failure_while_writing_leaves_nothing(ann, monkeypatch):
    PoolFactory(name="h100")

    def fail(*args, **kwargs):
        assert Workflow.objects.exists()
        raise RuntimeError("after the last rows")

    monkeypatch.setattr(rows, "notify_on_commit", fail)
    with pytest.raises(RuntimeError):
        submission.submit(submission_request(ann))
    assert not Workflow.objects.exists()


def test_a_task_is_as_new_as_its_group_to_the_microsecond_and_otherwise_as_any_new_task(ann):
    PoolFactory(name="h100")
    submission.submit(submission_request(ann))
    task = Task.objects.select_related("group").first()
    assert task.processing_start_time == task.group.processing_start_time
    new = Task()
    given = {
        "id", "group_id", "task_uuid", "name", "position", "lead", "status", "spec", "pod_name",
        "processing_start_time",
    }  # fmt: skip
    others = {field.attname for field in Task._meta.concrete_fields} - given
    assert {name: getattr(task, name) for name in others} == {name: getattr(new, name) for name in others}
