"""Every way in which a running gang loses a task, and what follows, on a real control plane.

``OSMO_TRANSCRIPTS=DIR`` writes a row of a table for each case. The group comes back from each; among the deep
tests it ends with each, or its lost tasks are tried again alone.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from localcluster import nodes
from localcluster.api import MERGE_PATCH
from localcluster.standins.computedomain.actions import DOMAINS
from localcluster.standins.computedomain.values import DAEMON_MARK
from scheduling.names import GROUP_LABEL
from tests.e2e.conftest import workflow

BACKOFF = {"first": "1s", "limit": "2s"}
ROOM = "one: {gpu: 4, topology: [{key: rack}]}"
HALVES = "one: {gpu: 2}"
LEAD = {"exitActions": '{RESTART_GROUP: "75"}'}
RESPONSES = ("requeue", *(pytest.param(word, marks=pytest.mark.deep) for word in ("task", "fail")))


@dataclass
class Gang:
    """A LOW gang that runs, and what stands in its way once it has lost its places."""

    world: object
    pool: str
    name: str
    blockers: list[str] = field(default_factory=list)

    @property
    def group(self):
        return self.world.groups(self.name)["g"]

    @property
    def lead(self):
        return next(task for task in self.group["tasks"] if task["lead"])

    @property
    def node(self):
        return self.lead["node_name"]

    @property
    def pods(self):
        return {pod["metadata"]["name"]: pod for pod in self.world.pods(self.name)}


def preempted(gang):
    """Work of priority HIGH takes its nodes."""
    high = gang.world.submit(gang.pool, workflow(("g", ["a", "b"]), name="high"), priority="HIGH")
    gang.blockers.append(high)


def reclaimed(gang):
    """A pool over the same nodes takes back the GPUs that its queue is guaranteed."""
    world = gang.world
    content = world.service.get(f"/api/configs/pool/{gang.pool}")
    owner, values = f"{gang.pool}-owner", {key: content[key] for key in content if key != "name"}
    world.service.call("PUT", f"/api/configs/pool/{owner}", {"configs": values | guaranteed(8)})
    gang.blockers.append(world.submit(owner, workflow(("g", ["a", "b"]), name="owner")))


def guaranteed(gpus):
    return {"resources": {"gpu": {"guarantee": gpus, "maximum": -1, "weight": 1}}}


def packed(gang):
    """Work of the same priority has a place once the gang, which lies on two nodes, is moved to one."""
    big = workflow(("g", ["a", "b"]), name="big", resources="one: {gpu: 4}")
    gang.world.wait_group(gang.world.submit(gang.pool, big, priority="LOW"), "g", "RUNNING")


def removed(gang):
    gang.world.api.delete(f"{nodes.PATH}/{gang.node}")


def silent(gang):
    nodes.stop_kubelet(gang.world.api, gang.node)


def not_ready(gang):
    nodes.report_not_ready(gang.world.api, gang.node)


def drained(gang):
    """As ``kubectl drain`` does it."""
    node, world = gang.node, gang.world
    cordon(world, node)
    for name, pod in gang.pods.items():
        if pod["spec"]["nodeName"] == node:
            path = f"/api/v1/namespaces/{world.namespace}/pods/{name}/eviction"
            metadata = {"name": name, "namespace": world.namespace}
            world.api.create(path, {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata})


def failed_on_a_cordoned_node(gang):
    """A cordon alone ends nothing; the rank that fails later finds its node closed."""
    cordon(gang.world, gang.node)
    failed(gang)


def cordon(world, node):
    body = {"spec": {"unschedulable": True}}
    world.api.call("PATCH", f"{nodes.PATH}/{node}", body=body, content_type=MERGE_PATCH)


def failed(gang):
    """The lead ends with the exit code for which its group is restarted."""
    end_lead(gang, code=75)


def failed_without_a_word(gang):
    """The lead ends with an exit code that no exit action names."""
    end_lead(gang, code=1)


def end_lead(gang, *, code):
    (pod,) = (pod for pod in gang.pods.values() if pod["metadata"]["labels"]["osmo.task_name"] == "a")
    gang.world.annotate(pod, exit_code=str(code), run_for="0s")


def out_of_its_domain(gang):
    """The node is healthy, and only its ComputeDomain daemon is not ready."""
    body = {"metadata": {"annotations": {DAEMON_MARK: "not-ready"}}}
    gang.world.api.call("PATCH", f"{nodes.PATH}/{gang.node}", body=body, content_type=MERGE_PATCH)


def without_its_domain(gang):
    """Somebody deletes the ComputeDomain that its pods' claims name; pods and nodes stay as they are."""
    api, path = gang.world.api, f"{DOMAINS}/namespaces/{gang.world.namespace}/computedomains"
    (pod, *_) = gang.pods.values()
    labels = {"labelSelector": f"{GROUP_LABEL}={pod['metadata']['labels'][GROUP_LABEL]}"}
    ((domain,), _) = api.list(path, query=labels)
    api.delete(f"{path}/{domain['metadata']['name']}")


@dataclass(frozen=True)
class Cause:
    """``loss`` is the word of the policy that rules it; ``pool`` are values of the pool.

    ``restarts`` says that the whole group is tried again whatever the policy says.
    """

    act: Callable[[Gang], None]
    loss: str
    racks: int = 2
    nvlink: bool = True
    leaves_node: bool = True
    restarts: bool = False
    pool: dict = field(default_factory=dict)


LOST = {"node_lost_after": 6, "force_lost_pods": True}
CAUSES = {
    "preempted by HIGH": Cause(preempted, "preempted", racks=1, leaves_node=False),
    "reclaimed by another queue": Cause(
        reclaimed, "preempted", racks=1, leaves_node=False, pool=guaranteed(0)
    ),
    "moved to pack another": Cause(packed, "preempted", nvlink=False, leaves_node=False),
    "node removed": Cause(removed, "node_lost"),
    "kubelet silent": Cause(silent, "node_lost", pool=LOST),
    "node NotReady": Cause(not_ready, "node_lost", pool=LOST),
    "node drained": Cause(drained, "node_lost"),
    "node cordoned, then a rank failed": Cause(failed_on_a_cordoned_node, "failed", restarts=True),
    "rank failed, RESTART_GROUP": Cause(failed, "failed", leaves_node=False, restarts=True),
    "rank failed": Cause(failed_without_a_word, "failed", leaves_node=False),
    "ComputeDomain deleted": Cause(without_its_domain, "node_lost", leaves_node=False),
    "node out of its ComputeDomain": Cause(out_of_its_domain, "node_lost", pool={"node_lost_after": 2}),
}


def running(world, cause, response):
    recovery = {"preempted": response, "node_lost": response, "failed": response, "backoff": BACKOFF}
    size = 3 if response == "task" and cause.leaves_node else 2  # a replacement stays in its peers' rack
    pool = world.make_pool(racks=cause.racks, size=size, nvlink=cause.nvlink, recovery=recovery, **cause.pool)
    if cause.act is packed:
        return Gang(world, pool, spread(world, pool))
    name = world.submit(pool, workflow(("g", ["a", "b"], LEAD), name="low", resources=ROOM), priority="LOW")
    world.wait_group(name, "g", "RUNNING")
    world.bound_pods(name)
    return Gang(world, pool, name)


def spread(world, pool):
    """A gang of two halves of nodes on two nodes, each of which has room for both; a third node is free."""
    cordon(world, f"{pool}-r1-1")
    names = []
    for name, tasks in (("before", ["a"]), ("low", ["a", "b"]), ("after", ["a"])):
        names.append(world.submit(pool, workflow(("g", tasks), name=name, resources=HALVES), priority="LOW"))
        world.wait_group(names[-1], "g", "RUNNING")
        world.bound_pods(names[-1])
    for name in (names[0], names[2]):
        world.service.cancel(name)
        world.wait_released(name)
    assert len({pod["spec"]["nodeName"] for pod in world.pods(names[1])}) == 2
    return names[1]


@pytest.mark.parametrize("response", RESPONSES)
@pytest.mark.parametrize("cause", CAUSES.values(), ids=CAUSES)
def test_a_gang_that_loses_a_task(world, request, cause, response):
    gang = running(world, cause, response)
    node, pods, began = gang.node, gang.pods, time.monotonic()
    cause.act(gang)
    if response == "fail" and not cause.restarts:
        ended(gang, request, began)
        return
    if response == "task" and not cause.restarts and cause.act is not without_its_domain:
        replaced(gang, request, pods, began)
        return
    world.wait(lambda: attempts(gang), lambda found: len(found) == 2)
    for blocker in gang.blockers:
        world.wait_group(blocker, "g", "RUNNING")
        end(world, blocker)
    first, second = world.wait(lambda: attempts(gang), lambda found: found[-1]["status"] == "RUNNING")
    seconds = time.monotonic() - began
    assert (first["cause"], second["number"]) == (cause.loss, 2)
    assert first["evidence"]
    assert gang.pods.keys().isdisjoint(pods)
    if cause.leaves_node:
        assert node not in {pod["spec"]["nodeName"] for pod in world.bound_pods(gang.name)}
    for pod in gang.pods.values():
        world.annotate(pod, run_for="0s", exit_code="0")
    assert world.wait_released(gang.name)["status"] == "COMPLETED"
    assert world.left(gang.name) == []
    write_row(gang, request, "COMPLETED", f"{first['cause']}, {first['evidence']}", seconds)
    end(world, *running_workflows(world, gang.pool))


def attempts(gang):
    """The attempts of a group that never goes back for its user."""
    group = gang.group
    assert group["status"] == "RUNNING", group
    return group["attempts"]


def ended(gang, request, began):
    world = gang.world
    status = world.wait_released(gang.name)["status"]
    seconds = time.monotonic() - began
    assert status in {"FAILED", "FAILED_PREEMPTED", "FAILED_BACKEND_ERROR", "FAILED_EVICTED"}
    assert world.left(gang.name) == []
    (attempt,) = gang.group["attempts"]
    write_row(gang, request, status, attempt["message"], seconds)
    end(world, *{*gang.blockers, *running_workflows(world, gang.pool)})


def replaced(gang, request, pods, began):
    """The lost tasks alone are tried again, in the same attempt; their peers keep their pods."""
    world = gang.world
    world.wait(lambda: tries(gang), lambda found: any(found.values()))
    for blocker in gang.blockers:
        world.wait_group(blocker, "g", "RUNNING")
        end(world, blocker)
    world.wait(lambda: gang.group["tasks"], lambda tasks: all(t["status"] == "RUNNING" for t in tasks))
    seconds, again = time.monotonic() - began, sorted(name for name, retry in tries(gang).items() if retry)
    assert len(attempts(gang)) == 1
    assert len(gang.pods.keys() & pods.keys()) == len(pods) - len(again)
    for pod in gang.pods.values():
        world.annotate(pod, run_for="0s", exit_code="0")
    assert world.wait_released(gang.name)["status"] == "COMPLETED"
    assert world.left(gang.name) == []
    write_row(gang, request, "COMPLETED", f"tried again alone: {', '.join(again)}", seconds)
    end(world, *running_workflows(world, gang.pool))


def tries(gang):
    return {task["name"]: task["retry_id"] for task in gang.group["tasks"]}


def running_workflows(world, pool):
    answer = world.service.call("GET", f"/api/workflow?pools={pool}&statuses=RUNNING&all_users=true")
    return [entry["name"] for entry in answer["workflows"]]


def end(world, *names):
    for name in names:
        world.service.cancel(name)
        world.wait_released(name)


def write_row(gang, request, status, outcome, seconds):
    """A row of the table: cause, response, status, attempts, what was seen, seconds, what is left."""
    folder = os.environ.get("OSMO_TRANSCRIPTS")
    if not folder:
        return
    response, case = request.node.callspec.params["response"], request.node.callspec.id
    left = len(gang.world.left(gang.name))
    cells = (case.removesuffix(f"-{response}").removeprefix(f"{response}-"), response, status)
    row = (*cells, len(gang.group["attempts"]), outcome, f"{seconds:.1f}", left)
    with (Path(folder) / "gangs-that-come-back.md").open("a") as table:
        table.write(f"| {' | '.join(map(str, row))} |\n")
