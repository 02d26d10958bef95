"""The attempt after a lost node keeps off that node, unless the group could not be placed without it."""

from dataclasses import replace

import pytest

from cluster.kinds import NODE, POD
from tests.builders.gangs import REQUEUE, recovering_gang
from tests.builders.losses import lose_nodes
from tests.builders.nodes import node
from tests.worker.world import fresh
from workflows.models import Event

AMOUNTS = {
    "nvidia.com/gpu": "64",
    "cpu": "640",
    "memory": "5120Gi",
    "ephemeral-storage": "1Ti",
    "pods": "110",
}


def put(world, name, labels=None, **state):
    world.cluster.put(NODE, node(name, labels=labels, allocatable=AMOUNTS, **state))


@pytest.fixture
def lose(world):
    """Run a group on nodes of these names, lose the first, and let the next attempt begin."""

    def run(*names, **policy):
        for name in names:
            put(world, name)
        values = {field: getattr(REQUEUE, field) for field in ("preempted", "node_lost", "backoff_first")}
        group = recovering_gang(world, policy=type(REQUEUE)(**values, **policy), pods=1)
        assert fresh(group).status == "RUNNING"
        put(world, names[0], ready="Unknown", ago=400)
        for _ in range(12):
            world.step(group)
            if fresh(group).attempt_number == 2 and not fresh(group).clearing and world.pods():
                break
        assert fresh(group).attempt_number == 2
        return fresh(group)

    return run


def excluded(world):
    """The nodes that the pods of the present attempt keep off."""
    found = set()
    for pod in world.cluster.all(POD):
        affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
        terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
        for term in terms.get("nodeSelectorTerms", ()):
            for expression in term["matchExpressions"]:
                assert (expression["key"], expression["operator"]) == ("kubernetes.io/hostname", "NotIn")
                found.update(expression["values"])
    return found


def test_a_policy_that_says_nothing_avoids_nothing(world, lose):
    lose("node-0", "node-1")
    assert excluded(world) == set()


def test_the_next_attempt_keeps_off_the_node_that_was_lost(world, lose):
    group = lose("node-0", "node-1", avoid_nodes=1)
    assert excluded(world) == {"node-0"}
    (event,) = Event.objects.filter(group=group, reason="NewAttempt")
    assert "It avoids node-0." in event.message


def test_a_node_is_kept_off_by_its_host_name_where_that_is_another(world):
    """``kubernetes.io/hostname`` need not be the name of the node."""
    for name in ("node-0", "node-1"):
        put(world, name, labels={"kubernetes.io/hostname": f"{name}.example"})
    group = recovering_gang(world, policy=replace(REQUEUE, avoid_nodes=1), pods=1)
    lose_nodes(world, group, 0)
    world.settle()
    assert excluded(world) == {"node-0.example"}
    assert fresh(group).avoided_nodes == ["node-0"]


def test_all_nodes_that_were_lost_together_are_kept_off(world):
    names = ("node-0", "node-1", "node-2", "node-3", "node-4")
    for name in names:
        put(world, name)
    group = recovering_gang(world, policy=replace(REQUEUE, avoid_nodes=2), pods=3)
    for name, task in zip(names, group.tasks.order_by("position"), strict=False):
        on(world, task, name)
    world.step(group)
    lose_nodes(world, group, 1, 2)
    world.settle()
    assert excluded(world) == {"node-1", "node-2"}


def on(world, task, node_name):
    def change(obj):
        obj["spec"]["nodeName"] = node_name

    world.cluster.edit(POD, task.pod_name, change, namespace=task.group.placement["namespace"])


def test_a_node_without_which_the_group_could_never_be_placed_is_used_again(world, lose):
    group = lose("node-0", avoid_nodes=1)
    assert excluded(world) == set()
    (event,) = Event.objects.filter(group=group, reason="NodesUsedAgain")
    assert "uses node-0 again: without them it could never be placed" in event.message
    assert group.avoided_nodes == []
