"""A finished workflow is run again as a new one, checked against its pool as it is now."""

import pytest

from scheduling.topology.levels import Level
from tests.api.workflows.specs import alone, gang, task, text
from tests.error_shape import assert_error_shape
from tests.factories import PoolFactory
from workflows.models import Event, Task, TaskGroup, Workflow

pytestmark = pytest.mark.django_db
RACK = (Level("rack", "example.com/rack"),)
STEPS = {
    "name": "train",
    "tasks": [
        task("prepare"),
        task("learn", inputs=[{"task": "prepare"}], environment={"MODE": "{{workflow_id}}"}),
        task("report", inputs=[{"task": "learn"}]),
    ],
}


@pytest.fixture
def pool(db):
    return PoolFactory(name="h100", levels=RACK)


def submitted(api, workflow, query=""):
    answer = api.post(f"/api/pool/h100/workflow{query}", {"file": text(workflow)}, format="json")
    assert answer.status_code == 200, answer.json()
    return Workflow.objects.get(name=answer.json()["name"])


def ended(workflow, status, **groups):
    for name, how in groups.items():
        TaskGroup.objects.filter(workflow=workflow, name=f"{name}-group").update(status=how)
    workflow.status = status
    workflow.save()


def restart(api, workflow, pool="h100", **more):
    return api.post(f"/api/pool/{pool}/workflow/{workflow}/restart", **more)


def test_tasks_that_did_not_complete_run_again_and_the_rest_is_carried_over(api, pool):
    first = submitted(api, STEPS, "?priority=LOW&label=team=a&env_vars=SEED=7")
    ended(first, "FAILED", prepare="COMPLETED", learn="FAILED", report="FAILED_UPSTREAM")
    answer = restart(api, first.name)
    assert answer.status_code == 200, answer.json()
    assert (answer.json()["name"], answer.json()["spec"]) == ("train-2", None)
    again = Workflow.objects.get(name="train-2")
    groups = {group.name: group for group in again.groups.all()}
    assert {name: group.status for name, group in groups.items()} == {
        "prepare-group": "COMPLETED",
        "learn-group": "PROCESSING",
        "report-group": "WAITING",
    }
    assert groups["prepare-group"].released_at is not None
    assert (groups["prepare-group"].next_reconcile_at, groups["prepare-group"].touched_cluster) == (
        None,
        False,
    )
    assert (again.spec, again.priority, again.labels) == (first.spec, "LOW", {"team": "a"})
    learn = Task.objects.get(group=groups["learn-group"])
    assert learn.spec["environment"] == {"MODE": "{{workflow_id}}", "SEED": "7"}
    reply = api.get("/api/workflow/train-2").json()
    assert (reply["parent_name"], reply["parent_job_id"]) == ("train", 1)
    message = Event.objects.get(workflow=again, reason="RestartOf").message
    assert message == (
        'The workflow restarts train-1. Run again: "learn-group" and "report-group". Carried over as '
        'COMPLETED: "prepare-group".'
    )


def test_a_workflow_that_completed_runs_again_as_a_whole(api, pool):
    first = submitted(api, alone())
    ended(first, "COMPLETED", only="COMPLETED")
    assert restart(api, first.uuid.hex).status_code == 200
    assert TaskGroup.objects.get(workflow__name="train-2").status == "PROCESSING"


def test_a_restart_of_a_restart_knows_its_parent_and_keeps_what_was_laid_over(api, pool):
    first = submitted(api, alone(), "?env_vars=SEED=7")
    ended(first, "FAILED")
    restart(api, "train-1")
    ended(Workflow.objects.get(name="train-2"), "FAILED")
    restart(api, "train-2")
    third = Workflow.objects.get(name="train-3")
    assert (third.parent_name, third.parent_job_id, third.env_vars) == ("train", 2, ["SEED=7"])


def test_a_live_workflow_is_not_restarted(api, pool):
    submitted(api, alone())
    body = assert_error_shape(restart(api, "train-1"), 409)
    assert "train-1 is PENDING: only a finished workflow" in body["message"]
    assert body["workflow_id"] == "train-1"
    assert Workflow.objects.count() == 1


def test_it_is_checked_against_the_pool_as_it_is_now(api, pool):
    first = submitted(api, gang(2, topology=[{"key": "rack"}]))
    ended(first, "FAILED_CANCELED")
    pool.topology_keys.all().delete()
    body = assert_error_shape(restart(api, "train-1"), 400)
    assert "rack" in body["message"]
    assert Workflow.objects.count() == 1


def test_it_is_a_submission_to_pools_in_maintenance_too(api, pool):
    first = submitted(api, alone())
    ended(first, "FAILED")
    pool.enable_maintenance = True
    pool.save()
    assert_error_shape(restart(api, "train-1"), 409)
    assert TaskGroup.objects.get(workflow=first).stop_status == ""


def test_it_may_run_in_another_pool(api, pool):
    PoolFactory(name="a100")
    ended(submitted(api, alone()), "FAILED")
    assert restart(api, "train-1", pool="a100").status_code == 200
    assert Workflow.objects.get(name="train-2").pool_name == "a100"


def test_a_template_in_a_rendered_text_is_not_rendered_again(api, pool):
    workflow = alone(environment={"SHELL_CODE": "{% raw %}{{ not_ours }}{% endraw %}"})
    first = submitted(api, workflow)
    assert Task.objects.get().spec["environment"] == {"SHELL_CODE": "{{ not_ours }}"}
    ended(first, "FAILED")
    assert restart(api, "train-1").status_code == 200
    latest = Task.objects.get(group__workflow__name="train-2")
    assert latest.spec["environment"] == {"SHELL_CODE": "{{ not_ours }}"}


def test_a_repeat_with_its_key_restarts_once(api, pool):
    ended(submitted(api, alone()), "FAILED")
    key = {"headers": {"Idempotency-Key": "k"}}
    names = {restart(api, "train-1", **key).json()["name"] for _ in range(2)}
    assert names == {"train-2"}


def test_an_unknown_workflow_and_an_unknown_parameter_are_told(api, pool):
    assert assert_error_shape(restart(api, "train-9"), 404)["error_code"] == "DATABASE"
    ended(submitted(api, alone()), "FAILED")
    assert_error_shape(api.post("/api/pool/h100/workflow/train-1/restart?dry_run=True"), 400)
