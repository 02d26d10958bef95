"""The client of Python programs: a workflow's life on the whole service, and how calls fail."""

import json

import pytest

from osmo_topology_client import Client, Document, Failure, Misused, Refused, ServiceUnreachable
from tests.e2e.conftest import workflow

TOPOLOGY = "{gpu: 4, topology: [{key: rack, requirementType: required}]}"


def spec(tasks):
    return workflow(("g", tasks), resources=f"one: {TOPOLOGY}")


@pytest.fixture
def client(running_service, own_token):
    return Client(running_service["api_url"], token=own_token)


@pytest.fixture
def pool(world):
    """One rack of two nodes, as soon as the observer has seen them."""
    name = world.make_pool(racks=1)
    world.wait(lambda: world.service.get(f"/api/pool/{name}/topology"), lambda seen: seen["nodes"] == 2)
    return name


def end_task(client, world, workflow, name):
    """Let a task's pod end, and wait until the service knows."""

    def task():
        return next(task for task in client.workflow(workflow)["groups"][0]["tasks"] if task["name"] == name)

    (pod,) = (pod for pod in world.pods(workflow) if pod["metadata"]["name"] == task()["pod_name"])
    world.annotate(pod, run_for="0.1s")
    world.wait(task, lambda row: row["exit_code"] is not None)


def test_a_workflow_is_checked_submitted_explained_and_waited_for(client, world, pool):
    name = f"{world.prefix}client"
    document = Document(text=spec(["a", "b"]).replace("name: w", f"name: {name}"), pool=pool)
    (fit,) = client.fits(document)["feasibility"]
    assert (fit["group"], fit["verdict"]) == ("g", "now"), fit["sentence"]
    assert client.check(document)["name"] == f"{name}-1"
    assert [client.submit(document, key=name)["name"] for _ in range(2)] == [f"{name}-1"] * 2

    world.wait_group(f"{name}-1", "g", "RUNNING")
    waits = client.submit(document)["name"]
    world.wait(
        lambda: client.explain(waits)["groups"],
        lambda groups: [group["why"] for group in groups] == ["capacity"],
    )
    with pytest.raises(Failure, match=r"has not ended within 0\.1 s; it is PENDING"):
        client.wait(waits, seconds=0.1, interval=0.05)
    assert client.cancel(waits, message="enough") == {"name": waits}

    end_task(client, world, f"{name}-1", "b")  # before the lead, whose end is that of its group
    end_task(client, world, f"{name}-1", "a")
    assert b"a pod of the local cluster" in b"".join(client.logs(f"{name}-1", task="a", follow=True))
    ended = client.wait(f"{name}-1", seconds=200, interval=0.2)
    assert ended["status"] == "COMPLETED"
    assert [task["exit_code"] for task in ended["groups"][0]["tasks"]] == [0, 0]
    assert client.wait(waits, seconds=200, interval=0.2)["status"] == "FAILED_CANCELED"


def test_a_workflow_that_has_ended_is_run_again_by_the_client(client, world, pool):
    first = client.submit(Document(text=spec(["a"]), pool=pool))["name"]
    world.wait_group(first, "g", "RUNNING")
    client.cancel(first, force=True)
    client.wait(first, seconds=200, interval=0.2)
    second = client.restart(first)["name"]
    assert second != first
    client.cancel(second, force=True)


def test_a_refusal_has_the_faults_of_the_service(client):
    with pytest.raises(Refused) as refused:
        client.check(Document(text="workflow: {name: w, groups: []}", pool="nosuch"))
    assert (refused.value.status, refused.value.is_outage) == (404, False)
    assert refused.value.body["message"] == refused.value.message


def test_what_cannot_be_sent_is_refused_before_it_is():
    with pytest.raises(Misused, match="not UTF-8"):
        Client("http://127.0.0.1:9").workflow("a\udcff")


def test_a_service_that_is_away_is_waited_for_and_a_refusal_is_not(answering):
    away = (502, {}, "gone")
    running, ended = (
        json.dumps({"name": "w-1", "status": status, "groups": [], "more_entries": False})
        for status in ("RUNNING", "COMPLETED")
    )
    notes, pauses = [], []
    service = answering(
        (200, {}, running), away, away, (200, {}, ended), (200, {}, ended), (404, {}, '{"message": "No."}')
    )
    client = Client(service.url, notify=notes.append, sleep=pauses.append)
    assert client.wait("w-1", seconds=60)["status"] == "COMPLETED"
    assert (len(notes), pauses) == (2, [2.0, 2.0, 2.0])
    assert notes[0].endswith("502: gone Trying again.")
    with pytest.raises(Refused):
        client.wait("w-1", seconds=60)


def test_no_answer_is_an_error_of_its_own_after_some_tries():
    pauses = []
    with pytest.raises(ServiceUnreachable, match="cannot be reached"):
        Client("http://127.0.0.1:9", sleep=pauses.append).get("pool")
    assert pauses == [0.5, 1.0, 2.0]
