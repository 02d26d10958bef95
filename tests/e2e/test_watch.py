"""A workflow is watched from its submission to the end of everything that was made for it."""

import http.client
import json
import secrets
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from localcluster.directories import CHECKOUT
from tests.e2e.conftest import SECONDS, workflow

ONE_RACK = "one: {gpu: 4, topology: [{key: rack}]}"


@contextmanager
def watching(world, name, headers=None):
    """The answer to a request that watches."""
    caller = http.client.HTTPConnection(urlsplit(world.service._url).netloc, timeout=SECONDS)
    with closing(caller):
        caller.request("GET", f"/api/workflow/{name}/watch", headers=headers or world.service.headers)
        with closing(caller.getresponse()) as answer:
            yield answer


def events_of(answer):
    """The events as (name, data), until the stream ends."""
    fields = {}
    for line in map(bytes.decode, answer):
        name, _, value = line.strip().partition(": ")
        if name:
            fields[name] = value
        elif "event" in fields:
            yield fields["event"], json.loads(fields["data"])
            fields = {}


@pytest.fixture
def neighbour(running_service):
    """The headers of somebody who may use another pool."""
    name = f"neighbour-{secrets.token_hex(3)}"

    def manage(*words):
        return subprocess.run(
            [sys.executable, CHECKOUT / "manage.py", *words, "--skip-checks"],
            cwd=Path(running_service["processes"]) / "worker",
            env=running_service["environment"],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=True,
        ).stdout.strip()

    token = manage("make_token", name)
    manage("grant_role", name, "osmo-next-door")
    return {"Authorization": f"Bearer {token}"}


def test_a_watcher_sees_what_a_workflow_waits_for_where_it_runs_and_its_end(world):
    pool = world.make_pool(racks=1, size=2)
    first = world.submit(pool, workflow(("g", ["a", "b"]), resources=ONE_RACK))
    world.wait_group(first, "g", "RUNNING")
    name = world.submit(pool, workflow(("g", ["a", "b"]), resources=ONE_RACK))
    events = []

    def watch():
        with watching(world, name) as answer:
            events.extend(events_of(answer))

    def states():
        return [data["groups"][0] for kind, data in events if kind == "state"]

    watcher = threading.Thread(target=watch)
    watcher.start()
    world.wait(states, lambda seen: any("rack" in (state["waiting_reason"] or "") for state in seen))
    for pod in world.pods(first):
        world.annotate(pod, run_for="0s")
    world.wait_group(name, "g", "RUNNING")
    nodes = sorted(pod["spec"]["nodeName"] for pod in world.bound_pods(name))
    world.wait(states, lambda seen: seen[-1]["task_counts"] == {"RUNNING": 2})
    for pod in world.pods(name):
        world.annotate(pod, run_for="0s")
    watcher.join(timeout=SECONDS)

    assert not watcher.is_alive()
    assert events[-1] == ("end", {"removed": False})
    statuses = [data["status"] for kind, data in events if kind == "state"]
    assert list(dict.fromkeys(statuses)) == ["PENDING", "RUNNING", "COMPLETED"]
    last = states()[-1]
    assert (last["status"], last["nodes"], last["got"]["outcome"]) == ("COMPLETED", nodes, "match")
    assert last["released_at"]
    assert not any(state["waiting_reason"] for state in states() if state["status"] == "RUNNING")


def test_a_neighbour_watches_nothing(world, neighbour):
    name = world.submit(world.make_pool(), workflow(("g", ["a"])))
    with watching(world, name, headers=neighbour) as answer:
        assert (answer.status, json.loads(answer.read())["error_code"]) == (404, "NOT_FOUND")


def test_a_watcher_that_hangs_up_gives_the_place_back(world):
    name = world.submit(world.make_pool(), workflow(("g", ["a"])))
    world.wait_group(name, "g", "RUNNING")

    def begin():
        watch = watching(world, name)
        return watch, watch.__enter__()

    def hang_up(watch, answer):
        watch.__exit__(None, None, None)
        return answer.status

    watches = [begin() for _ in range(2 * 20 + 1)]  # of one user, on two processes
    assert all(answer.getheader("Retry-After") for _, answer in watches if answer.status == 429)
    assert {hang_up(*watch) for watch in watches} == {200, 429}
    for _ in range(4):
        world.wait(lambda: hang_up(*begin()), lambda status: status == 200)
