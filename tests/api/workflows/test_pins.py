"""Sets of unlike tasks are pinned at submission to a place that the scheduler's own count passes over."""

import pytest

from tests.api.workflows.specs import task, text
from tests.factories import RACK, ZONE, NodeFactory, PoolFactory
from workflows.models import Event, TaskGroup

pytestmark = pytest.mark.django_db

LABELS = {ZONE.label: "a", RACK.label: "r1"}


@pytest.fixture
def pool():
    """One rack with nodes of four, two, four and two GPUs."""
    made = PoolFactory(name="mixed", levels=[ZONE, RACK])
    for number, gpus in enumerate((4, 2, 4, 2)):
        room = {"nvidia.com/gpu": str(gpus), "cpu": "64", "memory": "512Gi", "pods": "110"}
        NodeFactory(cluster=made.backend.cluster, name=f"m{number}", labels=LABELS, allocatable=room)
    return made


def post(api, pool, query=""):
    topology = [{"key": "rack", "group": "r"}]
    resources = {
        name: {"cpu": 1, "gpu": gpus, "memory": "1Gi", "topology": topology}
        for name, gpus in (("driver", 4), ("worker", 2))
    }
    tasks = [task("driver", resource="driver", lead=True)]
    tasks += [task(f"worker-{n}", resource="worker") for n in range(3)]
    spec = {"name": "train", "resources": resources, "groups": [{"name": "g", "tasks": tasks}]}
    answer = api.post(f"/api/pool/{pool.name}/workflow{query}", {"file": text(spec)}, format="json")
    assert answer.status_code == 200, answer.json()
    return answer.json()


def test_the_reply_names_the_domain(api, pool):
    reply = post(api, pool)
    (fit,) = reply["feasibility"]
    (row,) = reply["constraints"][0]["constraints"]

    assert fit["verdict"] == "now"
    assert 'so node labels keep it there: rack "r" in a/r1' in fit["sentence"]
    assert (row["requirementType"], row["domain"]) == ("required", ["a", "r1"])


def test_pods_ask_for_the_labels_and_the_pod_group_has_no_constraint(api, pool):
    reply = post(api, pool, "?dry_run=true")
    (group,) = [m for m in reply["objects"] if m["kind"] == "PodGroup"]
    selectors = [m["spec"]["nodeSelector"] for m in reply["objects"] if m["kind"] == "Pod"]

    assert "topologyConstraint" not in group["spec"]
    assert len(selectors) == 4
    assert all(LABELS.items() <= selector.items() for selector in selectors)


def test_the_pins_are_frozen_with_the_group_and_told_in_its_timeline(api, pool):
    row = TaskGroup.objects.get(workflow__name=post(api, pool)["name"])
    (event,) = Event.objects.filter(group=row, reason="SetsPinned")

    assert row.form["pins"] == [{"set": [{"key": "rack", "group": "r"}], "domain": ["a", "r1"]}]
    assert 'rack "r" in a/r1' in event.message


def test_a_gang_that_its_scheduler_places_is_not_pinned(api, pool):
    for number in range(4):
        NodeFactory(cluster=pool.backend.cluster, name=f"more{number}", labels={**LABELS, RACK.label: "r2"})
    reply = post(api, pool)

    assert reply["feasibility"][0]["verdict"] == "now"
    assert "domain" not in reply["constraints"][0]["constraints"][0]
