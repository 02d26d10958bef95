"""What a recovery policy decides of a loss happens, whichever task it hits and whatever the group ignores."""

import pytest

from cluster.kinds import POD
from pools.values.recovery import RecoveryPolicy, Response
from tests.builders.gangs import recovering_gang
from tests.builders.losses import delete_pod, lose_nodes
from tests.worker.world import fresh, statuses
from workflows.models import TaskGroup

LEAD, OTHER = 0, 1


def refused_by_node(world, group, number):
    world.cluster.edit(POD, _pod(group, number), _refuse, namespace=group.placement["namespace"])
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


def test_a_gang_comes_back_from_a_node_that_refused_its_pod(world):
    policy = RecoveryPolicy(node_lost=Response.REQUEUE, backoff_first=0.001)
    group = recovering_gang(world, policy=policy)
    refused_by_node(world, group, OTHER)
    world.settle()
    assert statuses(group) == ["RUNNING"] * 3
    (attempt,) = group.attempts.all()
    assert (attempt.loss, attempt.evidence) == ("node_lost", "refused_by_node")


def _pod(group, number):
    return group.tasks.get(position=number, latest=True).pod_name


def _refuse(pod):
    message = "Pod was rejected: Node didn't have enough resource: nvidia.com/gpu"
    pod["status"] = {"phase": "Failed", "reason": "OutOfnvidia.com/gpu", "message": message}
