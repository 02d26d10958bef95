"""Sets are named at submission in an order in which the scheduler places them now."""

import pytest

from tests.api.workflows.specs import task, text
from tests.builders.gangs import SIZES, waiting_gang
from tests.builders.nodes import racked_pool
from tests.factories import RACK, ZONE, NodeFactory
from workflows.models import Event, TaskGroup

pytestmark = pytest.mark.django_db


@pytest.fixture
def pool():
    """Racks of eight and seven nodes: in the usual order five tasks take the seven, and four fit nowhere."""
    return racked_pool(8, 7, name="ordered")


def spec():
    resources = {
        name: {"cpu": 1, "gpu": 8, "memory": "1Gi", "topology": [{"key": "rack", "group": name}]}
        for name in SIZES
    }
    tasks = [
        task(f"{name}-{n}", resource=name, lead=(name, n) == ("five", 0))
        for name, size in SIZES.items()
        for n in range(size)
    ]
    return {"name": "train", "resources": resources, "groups": [{"name": "g", "tasks": tasks}]}


def post(api, pool, query=""):
    answer = api.post(f"/api/pool/{pool.name}/workflow{query}", {"file": text(spec())}, format="json")
    assert answer.status_code == 200, answer.json()
    return answer.json()


def sets_in_order(constraints):
    by_name = sorted(constraints, key=lambda line: line["subgroup"])
    return [line["set"][-1]["group"] for line in by_name]


def test_the_reply_names_sets_in_the_order_that_fits(api, pool):
    reply = post(api, pool)
    (fit,) = reply["feasibility"]
    (order,) = fit["order"]
    parts = [part[-1]["group"] for part in order["parts"]]

    assert (fit["verdict"], order["set"]) == ("now", [])
    assert parts != list(SIZES)
    assert sets_in_order(reply["constraints"][0]["constraints"]) == parts
    assert "with its sets placed in this order: rack" in fit["sentence"]


def test_the_order_is_frozen_with_the_group_and_told_in_its_timeline(api, pool):
    name = post(api, pool)["name"]
    row = TaskGroup.objects.get(workflow__name=name)
    shown = api.get(f"/api/workflow/{name}").json()["groups"][0]
    (event,) = Event.objects.filter(group=row, reason="SetsOrdered")

    assert shown["order"] == row.form["order"]
    assert sets_in_order(row.constraints) == [part[-1]["group"] for part in row.form["order"][0]["parts"]]
    assert event.message.startswith('Group "g" fits now only with its sets placed in this order: rack "')


def test_pods_carry_the_names_of_that_order(api, pool):
    reply = post(api, pool, "?dry_run=true")
    (group,) = [m for m in reply["objects"] if m["kind"] == "PodGroup"]
    leaves = {entry["name"]: entry["minMember"] for entry in group["spec"]["subGroups"]}
    labels = [
        m["metadata"]["labels"]["kai.scheduler/subgroup-name"] for m in reply["objects"] if m["kind"] == "Pod"
    ]

    assert {name: labels.count(name) for name in leaves} == leaves
    assert group["metadata"]["annotations"]["osmo.nvidia.com/order"]
    assert [leaves[name] for name in sorted(leaves)] != [5, 4, 3, 3]


def test_a_gang_that_fits_or_never_fits_keeps_the_usual_order(api, pool):
    NodeFactory(cluster=pool.backend.cluster, name="more", labels={ZONE.label: "a", RACK.label: "r1"})
    reply = post(api, pool)

    assert (reply["feasibility"][0]["verdict"], reply["feasibility"][0]["order"]) == ("now", [])
    assert sets_in_order(reply["constraints"][0]["constraints"])[:2] == ["five", "four"]
    assert not Event.objects.filter(reason="SetsOrdered").exists()


def test_an_explanation_names_the_order_that_a_waiting_gang_is_given(api, pool):
    group = waiting_gang(pool)
    TaskGroup.objects.filter(pk=group.pk).update(waiting_why="topology", waiting_reason="No rack has room.")

    (wait,) = api.get(f"/api/workflow/{group.workflow.name}/explain").json()["groups"]

    assert (
        "There is room now with its sets in another order, which they are given while it waits: rack"
        in (wait["sentence"])
    )
    assert wait["feasibility"]["order"][0]["set"] == []
