"""A task group's own topology, and preferences that are held for a while."""

import pytest

from tests.api.workflows.specs import gang, task, text
from tests.error_shape import assert_error_shape
from tests.factories import LEVELS, BackendFactory, PoolFactory
from workflows.models import Task, TaskGroup
from workflows.values.placement import TaskPlacement

pytestmark = pytest.mark.django_db

ZONE = {"key": "zone", "group": "z", "requirementType": "required"}
RACK = {"key": "rack", "group": "r", "requirementType": "preferred", "waitSeconds": 90}


@pytest.fixture
def submit(api):
    PoolFactory(name="h100", levels=LEVELS)

    def post(workflow, query="", *, pool="h100"):
        return api.post(f"/api/pool/{pool}/workflow{query}", {"file": text(workflow)}, format="json")

    return post


def grouped(*topology, resources):
    """One group with a topology of its own; its tasks take one resource spec each."""
    tasks = [task(f"worker-{i}", lead=i == 0, resource=name) for i, name in enumerate(resources)]
    return {
        "name": "train",
        "resources": {
            name: {"gpu": 8, **({} if own is None else {"topology": own})} for name, own in resources.items()
        },
        "groups": [{"name": "workers", "topology": list(topology), "tasks": tasks}],
    }


def in_force():
    """The requirements frozen for each task."""
    return {
        task.name: [(r.key, r.group) for r in TaskPlacement.from_json(task.spec).requirements]
        for task in Task.objects.order_by("position")
    }


def refused(answer):
    """The faults of a refused workflow, by code."""
    return {fault["code"]: fault for fault in assert_error_shape(answer, 400)["details"]}


def test_a_groups_topology_binds_tasks_that_say_nothing_or_more_and_leaves_those_that_say_none(submit):
    clique = {"key": "clique", "group": "c"}
    answer = submit(grouped(ZONE, resources={"silent": None, "own": [clique], "out": []}))
    assert answer.status_code == 200, answer.json()
    assert in_force() == {
        "worker-0": [("zone", "z")],
        "worker-1": [("zone", "z"), ("clique", "c")],
        "worker-2": [],
    }
    (group,) = answer.json()["constraints"]
    assert [(line["key"], line["tasks"]) for line in group["constraints"]] == [("zone", 2), ("clique", 1)]


def test_a_task_may_repeat_its_groups_topology_but_not_contradict_it(submit):
    assert submit(grouped(ZONE, resources={"same": [ZONE]}), "?dry_run=true").status_code == 200
    faults = refused(submit(grouped(ZONE, resources={"other": [{**ZONE, "group": "elsewhere"}]})))
    assert faults["contradicts_group"]["path"] == "workflow.resources.other.topology[0].group"
    assert not TaskGroup.objects.exists()


def test_a_task_under_a_groups_topology_names_only_narrower_keys(submit):
    faults = refused(
        submit(grouped({"key": "clique", "group": "c"}, resources={"wide": [{"key": "zone", "group": "z"}]}))
    )
    message = faults["not_narrower_than_group"]["message"]
    assert '"zone"' in message
    assert '"clique"' in message


def test_a_preference_that_waits_is_frozen_answered_and_starts_unrelaxed(submit):
    answer = submit(gang(2, topology=[RACK]), "?dry_run=true")
    assert answer.status_code == 200, answer.json()
    (line,) = answer.json()["constraints"][0]["constraints"]
    assert (line["requirementType"], line["waitSeconds"], line["relaxed"]) == ("preferred", 90, False)


def test_patience_beyond_the_queue_timeout_is_refused_where_it_is_written(submit):
    faults = refused(submit(gang(2, topology=[RACK], timeout={"queue_timeout": "60s"})))
    fault = faults["wait_beyond_queue_timeout"]
    assert fault["path"] == "workflow.resources.shard.topology[0].waitSeconds"
    assert "60" in fault["message"]


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ({**RACK, "requirementType": "required"}, "wait_on_required"),
        ({**RACK, "waitSeconds": 0}, "invalid_wait"),
        ({**RACK, "waitSeconds": -1}, "type"),
        ({**RACK, "waitSeconds": True}, "type"),
    ],
)
def test_only_a_preference_waits_and_for_some_seconds(submit, entry, code):
    assert code in refused(submit(gang(2, topology=[entry])))


def test_a_scheduler_that_cannot_relax_refuses_patience_naming_the_capability(submit):
    PoolFactory(name="native", levels=LEVELS, backend=BackendFactory(scheduler_type="kubernetes"))
    answer = submit(gang(2, topology=[RACK]), pool="native")
    assert any("topology.relax_pending" in fault["message"] for fault in refused(answer).values())


def test_a_pool_may_let_a_preference_be_ignored_and_the_reply_says_so(submit):
    backend = BackendFactory(scheduler_type="default")
    PoolFactory(name="plain", levels=LEVELS, backend=backend, unsupported_preferred="warn")
    preference = {"key": "clique", "requirementType": "preferred"}
    answer = submit(gang(2, topology=[preference]), pool="plain")
    assert answer.status_code == 200, answer.json()
    assert any("is ignored, as the pool allows" in warning for warning in answer.json()["warnings"])
    assert answer.json()["constraints"][0]["constraints"] == []
