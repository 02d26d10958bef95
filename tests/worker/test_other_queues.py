"""Work in an earlier queue of a pool's own holds nodes that Kueue does not see in the present one."""

import pytest

from pools.models import Backend, Pool
from tests.builders.workloads import admit, kueue_world, node_terms, queued_gang, workload
from tests.fakes.kinds import WORKLOAD
from tests.worker.world import fresh
from workflows.models import TaskGroup

OWN = {"own_queues": True}


@pytest.fixture
def world(db):
    return kueue_world()


@pytest.fixture
def earlier(world):
    """A gang of the pool's earlier queue, on n-1 and n-2."""
    group = queued_gang(world)
    admit(world, "n-1", "n-2")
    world.settle()
    Backend.objects.update(queue_settings=OWN)
    TaskGroup.objects.filter(pk=group.pk).update(placement={**fresh(group).placement, "queue": "earlier"})
    return group


def second(world, earlier):
    """A gang of the same pool, in its present queue."""
    pool = Pool.objects.get()
    group = world.group(pods=2, pool=pool)
    TaskGroup.objects.filter(pk=group.pk).update(placement={**group.placement, "queue": "train"})
    world.settle()
    return fresh(group)


def asked(world, group):
    """The nodes on which a gang's Workload asks for no room."""
    (obj,) = [obj for obj in world.cluster.all(WORKLOAD) if group.uuid.hex in obj["metadata"]["name"]]
    (pod_set,) = obj["spec"]["podSets"]
    return [text for term in node_terms(pod_set["template"]["spec"]) for text in term if "NotIn" in text]


def test_nodes_of_an_earlier_queues_work_are_left_out_while_it_holds_them(world, earlier):
    group = second(world, earlier)
    assert asked(world, group) == ["kubernetes.io/hostname NotIn n-1 n-2"]
    world.finish(earlier)
    world.settle()
    assert fresh(earlier).released_at is not None
    before = workload(world)["metadata"]["uid"]
    for _ in range(2):
        world.step(group)
    assert (asked(world, group), workload(world)["metadata"]["uid"]) == ([], before)
    calls = len(world.cluster.calls)
    world.reconcile(group)
    assert world.cluster.calls[calls:] == []


@pytest.mark.parametrize(
    ("settings", "version"), [({}, "0.17"), (OWN, "0.18")], ids=["queues of others", "counts by node"]
)
def test_nothing_is_left_out_where_kueue_or_others_see_to_it(world, earlier, settings, version):
    Backend.objects.update(queue_settings=settings, scheduler_version=version)
    assert asked(world, second(world, earlier)) == []


def test_work_of_the_same_queue_is_kueues_to_count(world, earlier):
    TaskGroup.objects.update(placement={**fresh(earlier).placement, "queue": "train"})
    assert asked(world, second(world, earlier)) == []
