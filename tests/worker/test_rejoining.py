"""Tries in pod groups of Kubernetes' own scheduler: it places a pod only beside its pod group's minimum."""

from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.kinds import COMPUTE_DOMAIN, POD, RESOURCE_CLAIM_TEMPLATE
from pools.values.recovery import RecoveryPolicy, Response
from scheduling import names
from tests.builders.crashes import death_at
from tests.builders.gangs import native_gang, pod_of, retried, set_finalizers
from tests.fakes import players
from tests.fakes.kinds import POD_GROUP
from tests.worker.world import World, fresh, statuses
from workflows.models import Event, ObservedPod, Task

RETRIED = retried("2", times=3)
REQUEUED = RecoveryPolicy(node_lost=Response.REQUEUE, preempted=Response.REQUEUE, backoff_first=0.001)
HELD = "example.com/held"


def kai_gang(world):
    pool = world.pool(nvlink=False)
    group = world.group(pods=4, frozen=RETRIED, pool=pool, ignore_nonlead_status=False)
    Task.objects.filter(group=group).update(lead=False)
    return group


def delete(world, group, task):
    world.cluster.remove(POD, pod_of(group, task), namespace="osmo")


def settle_past_graces(world):
    for _ in range(4):
        world.settle()
        then = timezone.now() - timedelta(minutes=1)
        ObservedPod.objects.filter(absent=True).update(seen_at=then)
        Task.objects.filter(latest=True, scheduling_start_time__isnull=False).update(
            scheduling_start_time=then
        )
    world.settle()


def pods_without_node(world):
    return [pod["metadata"]["name"] for pod in world.cluster.all(POD) if not pod["spec"].get("nodeName")]


def test_a_retry_that_waits_for_room_while_a_peer_ends_gets_a_pod_group_of_its_own(db):
    world = World()
    group = native_gang(world, frozen=RETRIED)
    world.settle()
    world.cluster.players.remove(players.scheduler)
    world.finish(group, 2, tasks=["task-1"])
    world.settle()
    assert pods_without_node(world) == [pod_of(group, "task-1")]
    world.finish(group, 0, tasks=["task-0"])
    world.settle()
    assert len(world.cluster.names(POD_GROUP)) == 2
    world.cluster.players.insert(0, players.scheduler)
    world.cluster._play()
    world.settle()
    assert statuses(group) == ["COMPLETED", "RUNNING", "RUNNING"]
    left = Task.objects.get(group=group, name="task-1", retry_id=1)
    assert left.failure_message.startswith("Its pod group places no pod any more")


def test_a_retry_that_waits_for_its_old_pod_while_a_peer_ends_gets_a_pod_group_of_its_own(db):
    world = World()
    group = native_gang(world, frozen=RETRIED)
    world.settle()
    old = pod_of(group, "task-1")
    set_finalizers(world, old, [HELD])
    world.finish(group, 2, tasks=["task-1"])
    world.settle()
    world.finish(group, 0, tasks=["task-0"])
    set_finalizers(world, old, [])
    world.settle()
    assert statuses(group) == ["COMPLETED", "RUNNING", "RUNNING"]


def test_a_retry_that_waits_for_room_leaves_its_pod_group_while_the_old_pod_of_another_stays(db):
    world = World()
    group = native_gang(world, frozen=RETRIED)
    world.settle()
    old = pod_of(group, "task-1")
    set_finalizers(world, old, [HELD])
    world.finish(group, 2, tasks=["task-1", "task-2"])
    world.settle()
    world.finish(group, 0, tasks=["task-0"])
    settle_past_graces(world)
    assert statuses(group) == ["COMPLETED", "PROCESSING", "RUNNING"]
    assert pods_without_node(world) == []


@pytest.mark.parametrize("scheduler", ["kai", "kubernetes"])
def test_a_retry_that_runs_is_followed_while_the_old_pod_of_another_stays(db, scheduler):
    world = World()
    group = native_gang(world, pods=4, frozen=RETRIED) if scheduler == "kubernetes" else kai_gang(world)
    world.settle()
    world.finish(group, 0, tasks=["task-0"])
    world.settle()
    old = pod_of(group, "task-1")
    set_finalizers(world, old, [HELD])
    for task in ("task-1", "task-2"):
        world.finish(group, 2, tasks=[task])
        world.settle()
    world.finish(group, 0, tasks=["task-2"])
    world.settle()
    assert statuses(group) == ["COMPLETED", "PROCESSING", "COMPLETED", "RUNNING"]


def test_a_retry_in_a_pod_group_of_its_own_does_not_count(db):
    """Two are allowed, and the try that only changed its pod group is none of them."""
    world = World()
    group = native_gang(world, frozen=RETRIED | {"max_retry_per_task": 2})
    world.settle()
    world.cluster.players.remove(players.scheduler)
    world.finish(group, 2, tasks=["task-1"])
    world.settle()
    world.finish(group, 0, tasks=["task-0"])
    world.settle()
    world.cluster.players.insert(0, players.scheduler)
    world.cluster._play()
    world.settle()
    world.finish(group, 2, tasks=["task-1"])
    world.settle()
    assert statuses(group) == ["COMPLETED", "RUNNING", "RUNNING"]


def test_a_retry_whose_creation_was_lost_is_placed_after_a_peer_ended(db):
    world = World()
    group = native_gang(world, frozen=RETRIED)
    world.settle()
    world.finish(group, 2, tasks=["task-1"])
    with death_at("before-created-recorded"):
        world.settle()
    world.finish(group, 0, tasks=["task-0"])
    delete(world, group, "task-1")
    settle_past_graces(world)
    assert statuses(group) == ["COMPLETED", "RUNNING", "RUNNING"]


def test_of_two_retries_that_were_placed_together_none_is_made_again(db):
    world = World()
    group = native_gang(world, pods=4, frozen=RETRIED)
    world.settle()
    world.finish(group, 0, tasks=["task-0"])
    world.settle()
    world.finish(group, 2, tasks=["task-1", "task-2"])
    with death_at("before-created-recorded"):
        world.settle()
    world.finish(group, 0, tasks=["task-1"])
    delete(world, group, "task-2")
    settle_past_graces(world)
    assert pods_without_node(world) == []
    assert fresh(group).status == "FAILED_BACKEND_ERROR"


def test_a_retry_placed_beside_one_that_is_recorded_already_is_not_made_again(db):
    world = World()
    group = native_gang(world, pods=4, frozen=RETRIED)
    world.settle()
    world.finish(group, 0, tasks=["task-0"])
    world.settle()
    old = pod_of(group, "task-2")
    set_finalizers(world, old, [HELD])
    world.finish(group, 2, tasks=["task-1", "task-2"])
    world.settle()
    assert statuses(group)[1:3] == ["SCHEDULING", "PROCESSING"]
    set_finalizers(world, old, [])
    world.cluster._play()
    with death_at("before-created-recorded"):
        world.settle()
    retry = pod_of(group, "task-2")
    delete(world, group, "task-2")
    settle_past_graces(world)
    assert retry not in world.pods()
    assert fresh(group).status == "FAILED_BACKEND_ERROR"


def test_a_placed_gang_waits_for_nothing_that_was_deleted_since(db):
    """Its template is made again only after 10 minutes, and a pod is held: its peers are followed."""
    world = World()
    group = native_gang(world, nvlink=True)
    with death_at("before-created-recorded"):
        world.settle()
    world.cluster.players.remove(players.compute_domain_controller)
    world.cluster.remove(RESOURCE_CLAIM_TEMPLATE, names.claim_template(group.pk), namespace="osmo")
    held = pod_of(group, "task-1")
    set_finalizers(world, held, [HELD])
    world.cluster.delete(POD, held, uid=None, namespace="osmo")
    settle_past_graces(world)
    assert "PROCESSING" not in statuses(group)


def test_a_placed_gang_gets_no_second_compute_domain_before_its_record(db):
    world = World()
    group = native_gang(world, nvlink=True, policy=REQUEUED)
    with death_at("before-created-recorded"):
        world.settle()
    for domain in world.cluster.names(COMPUTE_DOMAIN):
        world.cluster.remove(COMPUTE_DOMAIN, domain, namespace="osmo")
    world.cluster.remove(RESOURCE_CLAIM_TEMPLATE, names.claim_template(group.pk), namespace="osmo")
    world.settle()
    assert statuses(group) == ["RUNNING"] * 3
    assert world.cluster.names(COMPUTE_DOMAIN) == []


def test_the_note_of_a_placed_gang_counts_the_pods_that_are_left(db):
    world = World()
    group = native_gang(world)
    with death_at("before-created-recorded"):
        world.settle()
    delete(world, group, "task-1")
    world.settle()
    message = Event.objects.get(group=group, reason="Created").message
    assert message == "All objects are in the cluster, 2 pods. Of 1 more, which ran, none is left."


def test_a_try_that_the_rows_do_not_know_goes_from_a_placed_gang(db):
    """The database was put back: the pod of a later try is there."""
    world = World()
    group = native_gang(world, policy=REQUEUED)
    with death_at("before-created-recorded"):
        world.settle()
    task = Task.objects.get(group=group, name="task-1")
    (pod,) = [pod for pod in world.cluster.all(POD) if pod["metadata"]["name"] == task.pod_name]
    delete(world, group, "task-1")
    own = {key: pod["metadata"][key] for key in ("labels", "namespace")}
    later = names.pod(task.task_uuid, retry=7)
    world.cluster.put(POD, pod | {"metadata": own | {"name": later}})
    settle_past_graces(world)
    assert later not in world.pods()
    assert statuses(group) == ["RUNNING"] * 3


@pytest.mark.parametrize("nvlink", [False, True])
@pytest.mark.parametrize("response", [Response.REQUEUE, Response.TASK, Response.FAIL])
def test_the_response_to_a_pod_lost_before_its_record_is_up_to_the_policy(db, response, nvlink):
    world = World()
    policy = RecoveryPolicy(node_lost=response, preempted=response, failed=response, backoff_first=0.001)
    group = native_gang(world, nvlink=nvlink, policy=policy)
    with death_at("before-created-recorded"):
        world.settle()
    world.finish(group, 0, tasks=["task-0"])
    delete(world, group, "task-1")
    settle_past_graces(world)
    assert pods_without_node(world) == []
    world.finish(group)
    settle_past_graces(world)
    expected = "FAILED_BACKEND_ERROR" if response == Response.FAIL else "COMPLETED"
    assert fresh(group).status == expected
    assert fresh(group).released_at is not None
