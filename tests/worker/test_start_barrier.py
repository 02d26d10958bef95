"""Tasks at the start barrier: what their group says, and how they learn who has ended meanwhile."""

from datetime import timedelta

import pytest
from django.utils import timezone

import barrier
from cluster.errors import RequestForbidden
from cluster.kinds import POD, SECRET
from scheduling import names
from tests.fakes import players
from tests.worker.world import World, fresh, statuses
from workflows.models import ObservedPod, TaskGroup
from workflows.values.observation import ENDED_ANNOTATION
from workflows.values.placement import StartBarrier

BARRIER = StartBarrier(image="example.com/osmo:1", command=barrier.COMMAND, limit=60.0)
RUNNING = {"running": {"startedAt": "2026-01-01T10:00:00Z"}}


class AtBarrier(World):
    """A world whose pods get nodes and stay at their barrier; those in ``late`` have no address.

    ``ended_at_first`` has the ended peers that each pod was created with.
    """

    def __init__(self):
        super().__init__(scheduled=False)
        self.late = set()
        self.ended_at_first = {}
        self.cluster.players.remove(players.kubelet)
        self.cluster.players.append(self._start)

    def _start(self, cluster):
        for pod in cluster.all(POD):
            ended = pod["metadata"].get("annotations", {}).get(ENDED_ANNOTATION, "")
            self.ended_at_first.setdefault(pod["metadata"]["name"], ended.split())
            if "deletionTimestamp" in pod["metadata"]:
                cluster.remove(POD, pod["metadata"]["name"], namespace="osmo")
            elif not pod["spec"].get("nodeName"):
                pod["spec"]["nodeName"] = "node-0"
                self._set(pod, phase="Pending", init=RUNNING, main={"waiting": {"reason": "PodInitializing"}})

    def _set(self, pod, *, phase, init, main):
        address = {} if pod["metadata"]["name"] in self.late else {"podIP": "10.0.0.1"}
        own, (task,) = pod["spec"]["initContainers"][-1]["name"], pod["spec"]["containers"]
        pod["status"] = {
            **address,
            "phase": phase,
            "initContainerStatuses": [{"name": own, "state": init}],
            "containerStatuses": [{"name": task["name"], "state": main}],
        }
        self.cluster.put(POD, pod)

    def pod(self, task):
        return self.cluster.get(POD, task.pod_name, namespace="osmo")

    def complete(self, task):
        done = {"terminated": {"exitCode": 0, "reason": "Completed"}}
        self._set(self.pod(task), phase="Succeeded", init=done, main=done)

    def fail(self, task, code, message):
        end = {"terminated": {"exitCode": code, "reason": "Error", "message": message}}
        self._set(self.pod(task), phase="Failed", init=end, main={"waiting": {"reason": "PodInitializing"}})


@pytest.fixture
def world(db):
    return AtBarrier()


@pytest.fixture
def group(world):
    return world.group(pods=3, pool=world.pool(), frozen={"start_barrier": BARRIER, "attempts": True})


def hosts(*tasks):
    return sorted(names.hostname(task.task_uuid) for task in tasks)


def test_a_group_at_its_barrier_names_who_waits_and_who_has_no_address(world, group):
    _, _, third = group.tasks.order_by("position")
    world.late = {third.pod_name}
    world.settle()
    row = fresh(group)
    assert (row.status, row.waiting_why) == ("INITIALIZING", "start_barrier")
    assert row.waiting_reason.endswith("Without an address yet: task-2.")
    assert row.waiting_evidence["start_barrier"]["without_address"] == ["task-2"]


def test_a_task_that_ended_before_its_peers_saw_it_is_named_on_their_pods(world, group):
    lead, second, third = group.tasks.order_by("position")
    world.settle()
    world.complete(second)
    world.settle()
    assert statuses(group) == ["INITIALIZING", "COMPLETED", "INITIALIZING"]
    for task in (lead, third):
        assert world.pod(task)["metadata"]["annotations"][ENDED_ANNOTATION].split() == hosts(second)
    assert ENDED_ANNOTATION not in world.pod(second)["metadata"].get("annotations", {})
    world.complete(third)
    world.settle()
    assert world.pod(lead)["metadata"]["annotations"][ENDED_ANNOTATION].split() == hosts(second, third)


def test_a_barrier_that_ends_without_its_peers_ends_the_group_with_its_message(world, group):
    lead, *_ = group.tasks.order_by("position")
    world.settle()
    message = "After 1 min 1 of 2 peers had no address: task-2."
    world.fail(lead, barrier.NO_ADDRESS, message)
    world.settle()
    lead.refresh_from_db()
    assert (lead.status, lead.exit_code) == ("FAILED_START_TIMEOUT", 3005)
    assert message in lead.failure_message
    assert not world.pods()


def test_a_replacement_is_made_with_the_tasks_that_have_ended(world):
    frozen = {"start_barrier": BARRIER, "attempts": True, "max_retry_per_task": 1}
    group = world.group(
        pods=3, pool=world.pool(), frozen=frozen | {"default_exit_actions": {"RESCHEDULE": "3005"}}
    )
    _, second, third = group.tasks.order_by("position")
    world.settle()
    world.complete(second)
    world.settle()
    world.fail(third, barrier.NO_ADDRESS, "late")
    world.settle()
    again = group.tasks.get(name=third.name, latest=True)
    assert again.retry_id == 1
    assert world.pod(again)["metadata"]["annotations"][ENDED_ANNOTATION].split() == hosts(second)


def test_a_replacement_is_made_with_a_task_that_ended_in_the_same_reconcile(world):
    frozen = {"start_barrier": BARRIER, "attempts": True, "max_retry_per_task": 1}
    group = world.group(
        pods=4, pool=world.pool(), frozen=frozen | {"default_exit_actions": {"RESCHEDULE": "3005"}}
    )
    _, second, third, fourth = group.tasks.order_by("position")
    world.settle()
    world.complete(fourth)
    world.settle()
    world.fail(third, barrier.NO_ADDRESS, "late")
    world.cluster.fail(RequestForbidden("no", status=403), verb="create", kind=POD)
    world.step(group)
    assert group.tasks.get(name=third.name, latest=True).status == "PROCESSING"
    world.complete(second)
    world.step(group)
    again = group.tasks.get(name=third.name, latest=True)
    assert world.ended_at_first[again.pod_name] == hosts(second, fourth)


def test_a_pod_made_again_finds_its_peers_though_an_earlier_release_kept_them_elsewhere(db):
    """It put them among the group's files, so the Secret that a pod names now does not exist."""
    world = World(scheduled=False)
    group = world.group(pods=2, pool=world.pool(), frozen={"start_barrier": BARRIER, "attempts": True})
    world.settle()
    for name in world.cluster.names(SECRET):
        world.cluster.remove(SECRET, name, namespace="osmo")
    pod = group.tasks.first().pod_name
    long_ago = timezone.now() - timedelta(minutes=1)
    TaskGroup.objects.filter(pk=group.pk).update(created_in_cluster_at=long_ago)
    world.cluster.remove(POD, pod, namespace="osmo")
    world.observe()
    ObservedPod.objects.filter(absent=True).update(seen_at=long_ago)
    world.settle()
    volumes = world.cluster.get(POD, pod, namespace="osmo")["spec"]["volumes"]
    sources = [source for volume in volumes for source in volume.get("projected", {}).get("sources", ())]
    named = {source["secret"]["name"] for source in sources if "secret" in source}
    named |= {volume["secret"]["secretName"] for volume in volumes if "secret" in volume}
    assert named
    assert named <= set(world.cluster.names(SECRET))
