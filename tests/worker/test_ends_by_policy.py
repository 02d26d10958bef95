"""What a recovery policy decides of a loss happens: whichever task, group or scheduler it hits."""

import pytest

from cluster.kinds import NODE, POD
from pools.values.recovery import RecoveryPolicy, Response
from tests.builders.gangs import NATIVE, recovering_gang
from tests.builders.losses import delete_pod, lose_nodes
from tests.builders.nodes import node
from tests.builders.workloads import admit, kueue_world, queued_gang
from tests.worker.world import World, fresh, statuses
from workflows.models import TaskGroup

LEAD, OTHER = 0, 1


REFUSALS = {
    "OutOfnvidia.com/gpu": "Node didn't have enough resource: nvidia.com/gpu, requested: 4",
    "OutOfpods": "Node didn't have enough resource: pods",
    "UnexpectedAdmissionError": "Allocate failed due to no healthy devices present",
    "NodeAffinity": "Pod was rejected: Predicate NodeAffinity failed",
    "TopologyAffinityError": "Resources cannot be allocated with Topology locality",
}
"""By a kubelet's reason, what it says; every reason is a row of ``kubelet_reasons``."""


def refused_by_node(world, group, number, *, reason="OutOfpods", message=REFUSALS["OutOfpods"]):
    def refuse(pod):
        pod["status"] = {"phase": "Failed", "reason": reason, "message": message}

    world.cluster.edit(POD, _pod(group, number), refuse, namespace=group.placement["namespace"])
    world.observe()


def fail(world, group, number):
    world.finish(group, 7, tasks=[group.tasks.get(position=number, latest=True).name])


def lose_node(world, group, number):
    lose_nodes(world, group, number)


def vanish(world, group, number):
    delete_pod(world, group, number=number)


CASES = {
    "a lost node, which it ends by": (lose_node, RecoveryPolicy(), "node_lost: fail."),
    "a refusal by the node": (refused_by_node, RecoveryPolicy(), "node_lost: fail."),
    "a preemption": (vanish, RecoveryPolicy(), "preempted: fail."),
    "an unexplained deletion": (
        vanish,
        RecoveryPolicy(preempted=Response.REQUEUE, unexplained=Response.FAIL),
        "unexplained: fail.",
    ),
    "a failure with a response of its own": (fail, RecoveryPolicy(failed=Response.FAIL), "failed: fail."),
    "a lost node, beyond its bound": (
        lose_node,
        RecoveryPolicy(node_lost=Response.REQUEUE, most=0),
        "the most that its recovery policy allows.",
    ),
}


@pytest.mark.parametrize("number", [LEAD, OTHER], ids=["the lead", "another task"])
@pytest.mark.parametrize(("lose", "policy", "end"), CASES.values(), ids=CASES)
def test_a_policy_that_ends_a_group_ends_all_of_it(world, lose, policy, end, number):
    group = recovering_gang(world, policy=policy)
    TaskGroup.objects.filter(pk=group.pk).update(ignore_nonlead_status=True)
    lose(world, group, number)
    world.settle()
    row = fresh(group)
    assert row.status.startswith("FAILED"), row.status
    assert all(status.startswith("FAILED") for status in statuses(group))
    assert end in row.failure_message
    assert row.released_at is not None


def test_a_failure_that_no_policy_names_is_ignored_as_osmo_ignores_it(world):
    group = recovering_gang(world, policy=RecoveryPolicy())
    TaskGroup.objects.filter(pk=group.pk).update(ignore_nonlead_status=True)
    fail(world, group, OTHER)
    world.settle()
    assert (fresh(group).status, statuses(group)) == ("RUNNING", ["RUNNING", "FAILED", "RUNNING"])


@pytest.fixture(params=["kai", "kubernetes", "kueue"])
def gang(db, request):
    """Run a gang on each scheduler, beside nodes that are free; returns its world and its group."""

    def run(policy):
        if request.param == "kueue":
            world = kueue_world()
            group = queued_gang(world, policy=policy)
            admit(world, "n-1", "n-2")
            world.settle()
            return world, group
        world = World()
        pool = world.pool(backend=NATIVE if request.param == "kubernetes" else {})
        for number in range(6):
            world.cluster.put(NODE, node(f"node-{number}"))
        return world, recovering_gang(world, policy=policy, pool=pool)

    return run


@pytest.mark.parametrize("number", [LEAD, OTHER], ids=["the lead", "another task"])
@pytest.mark.parametrize(("reason", "message"), REFUSALS.items(), ids=REFUSALS)
def test_a_gang_comes_back_from_a_node_that_refused_its_pod(gang, reason, message, number):
    world, group = gang(RecoveryPolicy(node_lost=Response.REQUEUE, backoff_first=0.001))
    assert set(statuses(group)) == {"RUNNING"}
    refusing = group.tasks.get(position=number, latest=True).node_name
    refused_by_node(world, group, number, reason=reason, message=message)
    world.settle()
    (attempt,) = group.attempts.all()
    assert (attempt.loss, attempt.evidence) == ("node_lost", "refused_by_node")
    assert fresh(group).avoided_nodes == [refusing]


@pytest.mark.parametrize("number", [LEAD, OTHER], ids=["the lead", "another task"])
def test_a_refused_task_that_is_tried_again_alone_keeps_off_the_node(gang, number):
    world, group = gang(RecoveryPolicy(node_lost=Response.TASK, backoff_first=0.001))
    refusing = group.tasks.get(position=number, latest=True).node_name
    refused_by_node(world, group, number)
    world.settle()
    assert (fresh(group).attempt_number, fresh(group).avoided_nodes) == (1, [refusing])


@pytest.mark.parametrize("number", [LEAD, OTHER], ids=["the lead", "another task"])
def test_a_gang_that_comes_back_no_more_ends_by_its_backend(gang, number):
    world, group = gang(RecoveryPolicy(node_lost=Response.REQUEUE, most=0))
    refused_by_node(world, group, number)
    world.settle()
    assert (fresh(group).status, statuses(group)[number]) == ("FAILED_BACKEND_ERROR",) * 2


def _pod(group, number):
    return group.tasks.get(position=number, latest=True).pod_name
