"""``requirementType: auto`` over REST: decided at submission, frozen, and reported."""

import pytest

from tests.api.workflows.specs import gang, text
from tests.error_shape import assert_error_shape
from tests.factories import RACK, ZONE, NodeFactory, PoolFactory
from workflows.models import Task, Workflow
from workflows.values.placement import TaskPlacement

pytestmark = pytest.mark.django_db
AUTO = [{"key": "rack", "group": "r", "requirementType": "auto"}]


@pytest.fixture
def pool():
    """Two racks of three and two nodes of eight GPUs each."""
    made = PoolFactory(name="train", levels=[ZONE, RACK])
    for number, rack in enumerate(["r1", "r1", "r1", "r2", "r2"]):
        labels = {ZONE.label: "a", RACK.label: rack}
        NodeFactory(cluster=made.backend.cluster, name=f"n{number}", labels=labels)
    return made


def post(api, workflow, query=""):
    return api.post(f"/api/pool/train/workflow{query}", {"file": text(workflow)}, format="json")


def reply(answer):
    assert answer.status_code == 200, answer.json()
    return answer.json()


def types(body):
    return [entry["requirementType"] for group in body["constraints"] for entry in group["constraints"]]


@pytest.mark.parametrize(
    ("tasks", "want", "sentence"),
    [
        (
            3,
            "required",
            'rack "r" is "auto" and counts as required: on empty, open nodes, 1 of 2 racks',
        ),
        (4, "preferred", 'rack "r" is "auto" and counts as preferred: no rack could hold 4 tasks on empty'),
    ],
)
def test_a_set_is_required_if_a_rack_could_ever_hold_it(api, pool, tasks, want, sentence):
    body = reply(post(api, gang(tasks, topology=AUTO)))
    assert types(body) == [want]
    (warning,) = [warning for warning in body["warnings"] if "auto" in warning]
    assert warning.startswith(f'Task group "workers": {sentence}')
    assert warning in Workflow.objects.get().warnings
    for task in Task.objects.all():
        (requirement,) = TaskPlacement.from_json(task.spec).requirements
        assert (requirement.kind, task.spec["requirements"][0].keys()) == (want, {"key", "group", "required"})


def test_a_submission_again_decides_anew(api, pool):
    name = reply(post(api, gang(4, topology=AUTO)))["name"]
    NodeFactory(cluster=pool.backend.cluster, name="n9", labels={ZONE.label: "a", RACK.label: "r1"})
    again = reply(api.post(f"/api/pool/train/workflow?workflow_id={name}"))
    assert types(again) == ["required"]
    assert types(reply(post(api, gang(4, topology=AUTO), "?feasibility=only"))) == ["required"]
    old = Workflow.objects.get(name=name)
    assert old.groups.get().constraints[0]["requirementType"] == "preferred"


def test_without_a_known_node_it_is_preferred_and_says_so(api):
    PoolFactory(name="train", levels=[ZONE, RACK])
    body = reply(post(api, gang(2, topology=AUTO)))
    assert types(body) == ["preferred"]
    assert any("no node that its tasks may use is known yet" in warning for warning in body["warnings"])


def test_each_task_group_is_decided_by_itself(api, pool):
    workflow = gang(3, topology=AUTO)
    more = [dict(task, name=f"more-{i}", lead=not i) for i, task in enumerate(workflow["groups"][0]["tasks"])]
    workflow["groups"].append({"name": "larger", "tasks": [*more, dict(more[1], name="more-9")]})
    assert types(reply(post(api, workflow))) == ["required", "preferred"]


def test_auto_for_a_whole_task_group(api, pool):
    workflow = gang(4)
    del workflow["resources"]["shard"]["topology"]
    workflow["groups"][0]["topology"] = AUTO
    assert types(reply(post(api, workflow))) == ["preferred"]


def test_faults_are_those_of_the_document(api, pool):
    workflow = gang(3, topology=[{**AUTO[0], "key": "rak"}, {"key": "zone", "requirementType": "sometimes"}])
    details = assert_error_shape(post(api, workflow), 400)["details"]
    assert [detail["code"] for detail in details] == ["value"]
    assert details[0]["allowed"] == ["required", "preferred", "auto"]
    details = assert_error_shape(post(api, gang(3, topology=[{**AUTO[0], "key": "rak"}])), 400)["details"]
    assert [detail["code"] for detail in details] == ["unknown_key"]
