"""Pods that are deleted without a word: what the observer's rows say of them."""

from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.kinds import NODE, POD
from scheduling.backends.kai.evictions import EVICTED_ANNOTATION
from tests.factories import TaskGroupFactory
from tests.fakes.kinds import KAI_POD_GROUP
from tests.worker.world import fresh, statuses
from workflows.models import ObservedPod


@pytest.fixture
def low(world):
    """A running gang that may be preempted."""
    group = world.group(pods=2, frozen={"priority": "LOW"})
    world.settle()
    return fresh(group)


def delete(world, group):
    """All its pods are deleted, half a minute ago."""
    for task in group.tasks.all():
        world.cluster.remove(POD, task.pod_name, namespace=group.placement["namespace"])
    world.observe()
    gone_at = timezone.now() - timedelta(seconds=30)
    ObservedPod.objects.filter(group_uuid=group.pk, absent=True).update(seen_at=gone_at)
    return gone_at


def place(group, *, on, priority, at):
    """A pod of another group, as it was observed on a node."""
    other = TaskGroupFactory(
        workflow=group.workflow,
        backend=group.backend,
        status="RUNNING",
        frozen={"priority": priority},
        pods=0,
    )
    condition = {"type": "PodScheduled", "status": "True", "since": at.isoformat()}
    ObservedPod.objects.create(
        cluster_id=group.placement["cluster_uid"],
        namespace=group.placement["namespace"],
        name=f"{other.pk.hex}-0",
        uid=other.pk.hex,
        group_uuid=other.pk,
        phase="Running",
        node_name=on,
        digest={"conditions": [condition]},
        seen_at=at,
    )


def test_a_gang_whose_place_was_taken_by_higher_priority_was_preempted(world, low):
    node = low.tasks.order_by("position").first().node_name
    gone_at = delete(world, low)
    place(low, on=node, priority="HIGH", at=gone_at + timedelta(seconds=2))
    world.settle()
    low = fresh(low)
    assert low.status == "FAILED_PREEMPTED"
    assert "a group of priority HIGH was placed on" in low.failure_message


@pytest.mark.parametrize("marked", [0, 1])
def test_a_gang_of_which_one_pod_says_that_it_was_preempted_was_preempted_as_a_whole(world, marked):
    """The last word on a pod may be lost, the lead's for example, while an observer lists anew."""
    group = world.group(pods=2)
    world.settle()
    task = group.tasks.order_by("position")[marked]
    message = "default-scheduler: preempting to accommodate a higher priority pod group"
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": message,
    }
    world.cluster.edit(
        POD, task.pod_name, lambda obj: obj["status"].update(conditions=[condition]), namespace="osmo"
    )
    world.observe()
    delete(world, group)
    world.settle()
    assert statuses(group) == ["FAILED_PREEMPTED"] * 2
    group = fresh(group)
    assert (group.status, message in group.failure_message) == ("FAILED_PREEMPTED", True)


@pytest.mark.parametrize(
    ("joined_after", "sentence"), [(60, "was removed from the cluster"), (-60, "nothing there explains it")]
)
def test_a_node_that_is_younger_than_its_pods_was_removed_meanwhile(world, low, joined_after, sentence):
    """A node that comes back at once has its name again when the group is reconciled."""
    scheduled = timezone.now() - timedelta(hours=1)
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": scheduled.isoformat()}
    for task in low.tasks.all():
        world.cluster.edit(
            POD,
            task.pod_name,
            lambda obj: obj["status"].update(conditions=[condition]),
            namespace=low.placement["namespace"],
        )
        joined = scheduled + timedelta(seconds=joined_after)
        world.cluster.put(
            NODE,
            {
                "metadata": {"name": task.node_name, "creationTimestamp": joined.isoformat()},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            },
        )
    world.observe()
    delete(world, low)
    world.settle()
    assert sentence in fresh(low).failure_message


def test_a_gang_beside_one_of_its_own_priority_was_not(world, low):
    node = low.tasks.order_by("position").first().node_name
    gone_at = delete(world, low)
    place(low, on=node, priority="LOW", at=gone_at + timedelta(seconds=2))
    world.settle()
    low = fresh(low)
    assert low.status == "FAILED_BACKEND_ERROR"
    assert "nothing there explains it" in low.failure_message


def test_the_mark_of_its_scheduler_on_the_pod_group_is_enough(world, low):
    (pod_group,) = world.cluster.all(KAI_POD_GROUP)

    def mark(obj):
        evicted_at = timezone.now() - timedelta(seconds=32)
        obj["metadata"].setdefault("annotations", {})[EVICTED_ANNOTATION] = evicted_at.isoformat()

    metadata = pod_group["metadata"]
    for row in low.tasks.all():

        def older(obj):
            created = timezone.now() - timedelta(minutes=5)
            obj["metadata"]["creationTimestamp"] = created.isoformat()

        world.cluster.edit(POD, row.pod_name, older, namespace=metadata["namespace"])
    world.observe()
    world.cluster.edit(KAI_POD_GROUP, metadata["name"], mark, namespace=metadata["namespace"])
    delete(world, low)
    world.settle()
    low = fresh(low)
    assert low.status == "FAILED_PREEMPTED"
    assert "its scheduler marked the pod group as evicted" in low.failure_message
