"""The binder's part in a gang is read where KAI itself says nothing of it any more."""

from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.errors import RequestForbidden
from tests.factories import LEVELS
from tests.fakes.kinds import KAI_BIND_REQUEST, KAI_POD_GROUP
from tests.worker.world import World, fresh
from workflows.models import TaskGroup

LONG_AGO = "2020-01-01T00:00:00Z"


@pytest.fixture
def world(db):
    return World(scheduled=False, further=(KAI_BIND_REQUEST,))


@pytest.fixture
def group(world):
    """A gang that was created, and of which its scheduler says nothing."""
    group = world.group(pods=2, pool=world.pool(levels=LEVELS))
    world.settle()
    since = timezone.now() - timedelta(minutes=1)
    TaskGroup.objects.filter(pk=group.pk).update(created_in_cluster_at=since)
    assert fresh(group).waiting_why == "scheduler_silent"
    return group


def request(world, pod, **more):
    obj = {
        "apiVersion": KAI_BIND_REQUEST.api_version,
        "kind": "BindRequest",
        "metadata": {"name": pod, "namespace": "osmo"},
        "spec": {"podName": pod, "selectedNode": "node-0", "backoffLimit": 3},
        **more,
    }
    world.cluster.create(KAI_BIND_REQUEST, obj)
    return obj


def test_a_binder_that_fails_is_the_reason(world, group):
    failed = {"phase": "Failed", "reason": "resourceclaims/binding is forbidden", "failedAttempts": 1}
    request(world, group.tasks.first().pod_name, status=failed)
    world.reconcile(group)
    row = fresh(group)
    assert row.waiting_why == "pod_not_placeable"
    assert "its binder could not bind the pod: resourceclaims/binding is forbidden (1 failed" in (
        row.waiting_reason
    )


def test_a_binder_that_never_answers_is_the_reason_after_a_while(world, group):
    name = group.tasks.first().pod_name
    request(world, name)
    world.reconcile(group)
    assert fresh(group).waiting_why == "scheduler_silent"
    world.cluster.edit(
        KAI_BIND_REQUEST,
        name,
        lambda obj: obj["metadata"].update(creationTimestamp=LONG_AGO),
        namespace="osmo",
    )
    world.reconcile(group)
    assert "no binder has answered" in fresh(group).waiting_reason


def reported(world, group, since):
    """Let KAI have reported a lack of room, and the service have read it."""
    text = "Resources were found for 1 pods while 2 are required for gang scheduling"
    condition = {"reasons": [{"message": text}], "transitionID": "1", "lastTransitionTime": since}
    world.cluster.edit(
        KAI_POD_GROUP,
        group.uuid.hex,
        lambda obj: obj.update(status={"schedulingConditions": [condition]}),
        namespace="osmo",
    )
    world.settle()


def test_a_binder_that_fails_after_the_last_report_is_the_reason(world, group):
    reported(world, group, LONG_AGO)
    assert fresh(group).waiting_why == "capacity"
    failed = {"phase": "Failed", "reason": "resourceclaims/binding is forbidden", "failedAttempts": 1}
    made = request(world, group.tasks.first().pod_name, status=failed)
    made["metadata"].setdefault("creationTimestamp", "2020-01-01T00:00:01Z")
    world.reconcile(group)
    row = fresh(group)
    assert row.waiting_why == "pod_not_placeable"
    assert "its binder could not bind the pod" in row.waiting_reason
    assert "room" not in row.waiting_reason


def test_a_report_after_the_binder_failed_is_the_reason(world, group):
    failed = {"phase": "Failed", "reason": "x", "failedAttempts": 1}
    request(world, group.tasks.first().pod_name, status=failed)
    reported(world, group, "2199-01-01T00:00:00Z")
    world.reconcile(group)
    assert fresh(group).waiting_why == "capacity"


def test_requests_of_other_pods_say_nothing(world, group):
    request(world, "another", status={"phase": "Failed", "reason": "x"})
    request(world, group.tasks.first().pod_name, status={"phase": "Succeeded"})
    world.reconcile(group)
    assert fresh(group).waiting_why == "scheduler_silent"


def test_without_the_right_the_scheduler_is_silent_as_before(world, group):
    world.cluster.fail(RequestForbidden("no", status=403), verb="list", kind=KAI_BIND_REQUEST, times=9)
    world.reconcile(group)
    assert fresh(group).waiting_why == "scheduler_silent"
