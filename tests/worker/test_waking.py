"""A gang is woken whose scheduler found no room, and would not notice that there is some now."""

from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.errors import RequestForbidden
from pools.models import Backend, ForeignUsage, Node
from scheduling.backends.kueue.waking import FOREVER
from tests.builders.workloads import condition, kueue_world, queued_gang, workload, write_status
from tests.factories import foreign_usage
from tests.fakes.kinds import WORKLOAD
from tests.worker.world import fresh
from workflows.metrics import WAKES
from workflows.models import Event

NO_ROOM = 'couldn\'t assign flavors to pod set s: topology "t" allows to fit only 1 out of 2 pod(s)'


@pytest.fixture
def world(db):
    return kueue_world()


@pytest.fixture
def group(world):
    """A gang of two for which Kueue found no room a minute ago; two of the four nodes are enough for it."""
    group = queued_gang(world)
    amounts = {"nvidia.com/gpu": 1, "cpu": 64000, "memory": 2**38, "pods": 110}
    Node.objects.update(allocatable=amounts, ready=True, offers_channel=True)
    say_no_room(world)
    return group


def say_no_room(world, *, seconds=60):
    since = (timezone.now() - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    waits = condition("QuotaReserved", "False", "Pending", NO_ROOM) | {"lastTransitionTime": since}
    write_status(world, {"conditions": [waits]})


def ceiling(world):
    return workload(world)["spec"].get("maximumExecutionTimeSeconds")


def test_a_gang_with_room_is_woken_with_an_event_and_counted(world, group):
    backend = fresh(group).placement["backend"]
    before = WAKES.labels(backend)._value.get()
    world.step()
    assert ceiling(world) == FOREVER + 1
    (event,) = Event.objects.filter(reason="SchedulerWoken")
    assert "There is room for group" in event.message
    assert WAKES.labels(backend)._value.get() == before + 1


def test_a_gang_without_room_is_left_alone(world, group):
    for node in Node.objects.all()[:3]:
        foreign_usage(node.cluster, node=node.name, gpu=1)
    world.step()
    assert ceiling(world) is None
    ForeignUsage.objects.all().delete()
    world.step()
    assert ceiling(world) == FOREVER + 1


def test_a_version_that_looks_again_by_itself_is_left_alone(world, group):
    """The backend's version counts, not that of the submission: Kueue may have been upgraded since."""
    Backend.objects.update(scheduler_version="0.19")
    world.step()
    assert ceiling(world) is None


def test_it_is_woken_more_and_more_rarely(world, group):
    for _ in range(12):
        world.step()
    assert ceiling(world) == FOREVER + 4  # after 5, 10, 20 and 40 seconds


def test_a_kueue_that_went_down_after_its_answer_is_said_to_be_silent(world, group):
    """It said "no room" before; a gang for which there is room must not be said to wait in a queue."""
    world.step()

    def change(obj):  # as an API server counts generations
        obj["metadata"]["generation"] = 2
        for answer in obj["status"]["conditions"]:
            answer["observedGeneration"] = 1

    world.cluster.edit(WORKLOAD, workload(world)["metadata"]["name"], change, namespace="osmo")
    world.reconcile(group)
    assert "has not answered" not in fresh(group).waiting_reason
    Event.objects.filter(reason="SchedulerWoken").update(time=timezone.now() - timedelta(seconds=40))
    world.reconcile(group)
    assert (fresh(group).waiting_why, ceiling(world)) == ("scheduler_silent", FOREVER + 1)
    assert "its scheduler has not answered since it was told so" in fresh(group).waiting_reason


def test_a_worker_without_the_right_says_so(world, group):
    world.cluster.fail(RequestForbidden("no patch of workloads for you"), verb="patch", kind=WORKLOAD)
    world.step()
    assert "no patch of workloads for you" in fresh(group).waiting_reason
