"""Nodes become suspect by what they did to groups of several users, and pools may avoid them."""

from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.kinds import COMPUTE_DOMAIN, NODE, POD
from pools.models import NodeFailure, SuspectNode
from scheduling.nodes.suspects import NodeFault
from tests.builders.nodes import node
from tests.worker.world import fresh
from workflows.nodes.suspects import note_failures, suspects_of


def fail(group, name="node-7", fault=NodeFault.LOST, *, ago=timedelta()):
    note_failures(group, {name: fault}, now=timezone.now() - ago)


def group_of(world, user, pool):
    group = world.group(pool=pool)
    group.workflow.submitted_by = user
    group.workflow.save()
    return group


@pytest.fixture
def pool(world):
    return world.pool()


@pytest.fixture
def groups(world, pool):
    """A group of each of two users."""
    return [group_of(world, user, pool) for user in ("ann", "bob")]


def test_groups_of_one_user_make_no_node_suspect(world, pool):
    for _ in range(3):
        fail(group_of(world, "ann", pool))
    assert suspects_of(world.uid) == {}


def test_groups_of_two_users_do(world, groups):
    for group in groups:
        fail(group)
        fail(group)  # a reconciliation that is repeated counts once
    (suspect,) = suspects_of(world.uid).values()
    assert (suspect.node, suspect.groups, suspect.users, suspect.faults) == ("node-7", 2, 2, ["node_lost"])


def test_a_failure_of_long_ago_does_not_count_and_is_deleted(world, groups):
    fail(groups[0], ago=timedelta(days=2))
    fail(groups[1])
    assert suspects_of(world.uid) == {}
    assert NodeFailure.objects.count() == 1


def test_a_suspicion_ends_by_itself(world, groups):
    for group in groups:
        fail(group)
    SuspectNode.objects.update(until=timezone.now())
    assert suspects_of(world.uid) == {}


def test_a_lost_node_counts_with_the_change_that_ends_its_task(world, pool):
    world.cluster.put(NODE, node("node-0"))
    group = world.group(pool=pool)
    world.settle()
    world.cluster.put(NODE, node("node-0", ready="Unknown", ago=400))
    world.step(group)
    (failure,) = NodeFailure.objects.all()
    assert (failure.node, failure.fault, failure.group_uuid) == ("node-0", "node_lost", group.pk)


def test_an_exit_code_never_counts(world, pool):
    group = world.group(pool=pool)
    world.settle()
    world.finish(group, 137)
    world.step(group)
    assert fresh(group).status == "FAILED"
    assert not NodeFailure.objects.exists()


def test_a_running_task_that_loses_nvlink_counts_against_its_node(world):
    group = world.group(pods=2)
    world.settle()
    for number, pod in enumerate(world.cluster.all(POD)):
        pod["spec"]["nodeName"] = f"node-{number}"
        pod["status"]["resourceClaimStatuses"] = [{"name": "channel", "resourceClaimName": f"claim-{number}"}]
        world.cluster.put(POD, pod)
    for status in ("Ready", "NotReady"):
        (domain,) = world.cluster.all(COMPUTE_DOMAIN)
        nodes = [{"name": "node-0", "status": "Ready"}, {"name": "node-1", "status": status}]
        domain["status"] = {"status": "Ready", "nodes": nodes}
        world.cluster.put(COMPUTE_DOMAIN, domain)
        world.step(group)
        world.step(group)
    assert list(NodeFailure.objects.values_list("node", "fault")) == [("node-1", "nvlink_fault")]
