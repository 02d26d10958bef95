"""No template changes a field of a pod that this service sets, not even a template that nobody checked."""

from dataclasses import replace
from uuid import UUID

from tests.builders.placements import GROUP
from workflows.manifests.group import render_group
from workflows.values.placement import FrozenTemplate, GroupValues, TaskPlacement, TaskTry

HOSTILE = {
    "metadata": {
        "name": "x",
        "labels": {"osmo.pool": "x", "kai.scheduler/queue": "x", "team": "infra"},
        "annotations": {"pod-group-name": "x", "note": "{{WF_TASK_NAME}}"},
    },
    "spec": {
        "schedulerName": "x",
        "restartPolicy": "Always",
        "hostname": "x",
        "subdomain": "x",
        "priorityClassName": "x",
        "nodeSelector": {"a": "b"},
        "resourceClaims": [{"name": "channel", "resourceClaimName": "x"}, {"name": "nic"}],
        "containers": [
            {
                "name": "{{USER_CONTAINER_NAME}}",
                "image": "x",
                "command": ["x"],
                "env": [{"name": "A", "value": "{{USER_CPU}}"}],
                "resources": {
                    "limits": {"nvidia.com/gpu": "1", "memory": "{{USER_MEMORY}}", "cpu": "9"},
                    "claims": [{"name": "channel", "request": "x"}, {"name": "nic"}],
                },
            }
        ],
    },
}


def pods(template):
    task = TaskPlacement(
        image="ubuntu", command=("sleep",), environment={"A": "1", "B": "2"}, gpu=8, claims_channel=True
    )
    placement = replace(GROUP, nvlink=True, templates={"": FrozenTemplate(pod=template)} if template else {})
    tries = tuple(
        TaskTry(task_uuid=UUID(int=i + 1), name=name, retry_id=0, placement=task)
        for i, name in enumerate(("Task_1", "two"))
    )
    values = GroupValues(uuid=UUID(int=9), name="g", generation=0, placement=placement, tasks=tries)
    return render_group(values).pods


def test_our_fields_stay_and_all_others_are_the_templates():
    plain, pod = pods({})["Task_1"], pods(HOSTILE)["Task_1"]
    assert pod["metadata"]["name"] == plain["metadata"]["name"]
    assert plain["metadata"]["labels"].pop("team") == "vision"
    assert plain["metadata"]["labels"].items() <= pod["metadata"]["labels"].items()
    assert plain["metadata"].get("annotations", {}).items() <= pod["metadata"]["annotations"].items()
    assert pod["metadata"]["labels"]["team"] == "infra"
    assert pod["metadata"]["annotations"]["note"] == "Task_1"
    same = {"schedulerName", "restartPolicy", "hostname", "subdomain", "priorityClassName", "nodeSelector"}
    assert {key: pod["spec"].get(key) for key in same} == {key: plain["spec"].get(key) for key in same}
    own_claims = plain["spec"]["resourceClaims"]
    assert pod["spec"]["resourceClaims"] == [*own_claims, {"name": "nic"}]
    [container], [before] = pod["spec"]["containers"], plain["spec"]["containers"]
    assert (container["name"], container["image"], container["command"]) == ("task-1", "ubuntu", ["sleep"])
    assert container["env"] == [*before["env"][:-2], {"name": "A", "value": ""}, {"name": "B", "value": "2"}]
    assert container["resources"] == {
        "requests": {"nvidia.com/gpu": "8"},
        "limits": {"nvidia.com/gpu": "8", "cpu": "9"},
        "claims": [*before["resources"]["claims"], {"name": "nic"}],
    }


def test_an_empty_template_changes_nothing():
    assert pods({"spec": {}}) == pods({})
