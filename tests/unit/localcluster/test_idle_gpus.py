"""The bench's simulation of claims: what it places fits, and the service's rule is the one it uses."""

import pytest

from bench.idle_gpus import GPUS_OF_NODE, Cluster, Job, Node, auto, measure

ONE, PAIR = Job(tasks=1, gpus=1, hours=1.0), Job(tasks=2, gpus=2, hours=1.0)


def test_a_lone_task_claims_nothing_and_tasks_of_a_gang_do():
    assert (auto(ONE), auto(PAIR)) == (False, True)


@pytest.mark.parametrize(("claims", "number"), [(True, 1), (False, GPUS_OF_NODE)])
def test_a_node_takes_one_claim_or_as_many_tasks_as_it_has_gpus(claims, number):
    cluster = Cluster([Node(rack=0)], lambda _: claims)
    assert sum(cluster.start(ONE) for _ in range(GPUS_OF_NODE + 1)) == number


def test_a_gang_starts_in_one_rack_or_not_at_all():
    cluster = Cluster([Node(rack=0), Node(rack=1)], auto)
    assert not cluster.start(PAIR)
    assert [node.free for node in cluster.nodes] == [GPUS_OF_NODE, GPUS_OF_NODE]


def test_a_channel_is_free_again_when_its_task_ends():
    cluster = Cluster([Node(rack=0), Node(rack=0)], auto)
    assert cluster.start(PAIR)
    assert not cluster.start(PAIR)
    cluster.advance()
    assert cluster.start(PAIR)


def test_fewer_claims_leave_fewer_gpus_idle():
    rules = measure(small=True)["rules"]
    every, ours, none = (rules[name]["idle_gpus"] for name in ("every_gpu_task", "auto", "nobody"))
    assert every > ours > none
