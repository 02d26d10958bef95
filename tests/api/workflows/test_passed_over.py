"""A place that a scheduler passes over, and to which no pins lead, is reported with what would work."""

import pytest
import yaml
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from tests.api.workflows.specs import task, text
from tests.factories import RACK, ZONE, NodeFactory, PoolFactory, foreign_usage

pytestmark = pytest.mark.django_db


@pytest.fixture
def pool():
    """One rack with nodes of four, two, four and two GPUs; preferences never give way."""
    made = PoolFactory(name="mixed", levels=[ZONE, RACK], free_preferences_after=0)
    for number, gpus in enumerate((4, 2, 4, 2)):
        room = {"nvidia.com/gpu": str(gpus), "cpu": "64", "memory": "512Gi", "pods": "110"}
        labels = {ZONE.label: "a", RACK.label: "r1"}
        NodeFactory(cluster=made.backend.cluster, name=f"m{number}", labels=labels, allocatable=room)
    return made


def post(api, pool, requirement, *, gpus=(4, 2), query="?dry_run=true"):
    topology = [{"key": "rack", "group": "r", **requirement}]
    resources = {
        name: {"cpu": 1, "gpu": count, "memory": "1Gi", "topology": topology}
        for name, count in zip(("driver", "worker"), gpus, strict=True)
    }
    tasks = [task("driver", resource="driver", lead=True)]
    tasks += [task(f"worker-{n}", resource="worker") for n in range(3)]
    spec = {"name": "train", "resources": resources, "groups": [{"name": "g", "tasks": tasks}]}
    answer = api.post(f"/api/pool/{pool.name}/workflow{query}", {"file": text(spec)}, format="json")
    assert answer.status_code == 200, answer.json()
    return answer.json()


@pytest.mark.parametrize(
    ("requirement", "works"),
    [
        pytest.param(
            {"requirementType": "preferred", "waitSeconds": 600},
            [{"key": "rack", "group": "r", "requirementType": "required"}],
            id="required for a while",
        ),
        pytest.param({"requirementType": "preferred"}, [], id="preferred"),
    ],
)
@pytest.mark.parametrize("query", ["?dry_run=true", "?feasibility=only", ""])
def test_the_reply_has_the_topology_that_would_work(api, pool, requirement, works, query):
    reply = post(api, pool, requirement, query=query)
    (fit,) = reply["feasibility"]
    document = yaml.safe_load(fit["workable_spec"])

    assert fit["verdict"] == "not_now"
    assert "passes over" in fit["sentence"]
    assert [entry["topology"] for entry in document["resources"].values()] == [works]
    assert {each["name"] for each in document["groups"][0]["tasks"]} == {"driver"} | {
        f"worker-{n}" for n in range(3)
    }
    assert any("With this topology it would fit now:\n" in warning for warning in reply["warnings"])


def test_the_warning_that_all_readers_of_the_workflow_see_names_nobody_else(pool):
    user = User.objects.create_user("sue", is_superuser=True)
    submitter = APIClient()
    submitter.force_authenticate(user)
    room = {"nvidia.com/gpu": "4", "cpu": "64", "memory": "512Gi", "pods": "110"}
    for number in range(4):
        labels = {ZONE.label: "a", RACK.label: "r2"}
        NodeFactory(cluster=pool.backend.cluster, name=f"held{number}", labels=labels, allocatable=room)
        foreign_usage(pool.backend.cluster, f"held{number}", gpu=4, pods=1, namespace="secret-team")
    reply = post(submitter, pool, {"requirementType": "preferred"})
    assert "secret-team" in reply["feasibility"][0]["sentence"]
    (warning,) = [warning for warning in reply["warnings"] if "it would fit now" in warning]
    assert "passes over" in warning
    assert "secret-team" not in warning


@pytest.mark.parametrize(
    ("requirement", "gpus"),
    [
        pytest.param({"requirementType": "required"}, (4, 2), id="pinned"),
        pytest.param({"requirementType": "required"}, (4, 4), id="no room"),
    ],
)
def test_nothing_is_reported_where_no_place_is_passed_over(api, pool, requirement, gpus):
    reply = post(api, pool, requirement, gpus=gpus)
    assert reply["feasibility"][0]["workable_spec"] is None
    assert not any("passes over a place for" in warning for warning in reply["warnings"])
