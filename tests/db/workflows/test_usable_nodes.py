"""Every count of free nodes and GPUs of a pool uses one definition of the nodes that its pods may use."""

import random

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from pages.map.content import map_content
from pages.pools.content import pool_content, pool_lines
from pools.models import Pool
from pools.selectors import room_of
from tests.factories import RACK, ZONE, NodeFactory, PlatformFactory, PoolFactory
from workflows.feasibility.capacity.usage import nodes_of
from workflows.feasibility.placement.fragmentation import pool_fragments
from workflows.feasibility.placement.measured_fragmentation import measure
from workflows.feasibility.queues.quota import quota
from workflows.models import MeasuredFragments

pytestmark = pytest.mark.django_db
WORLDS, NODES = 30, 12
TEAM, AGENT, GPU = "example.com/team", "network.example.com/agent-not-ready", "nvidia.com/gpu"
TAINTS = [
    {"key": TEAM, "value": "a", "effect": "NoSchedule"},
    {"key": TEAM, "value": "b", "effect": "NoExecute"},
    {"key": AGENT, "effect": "NoSchedule"},
    {"key": GPU, "value": "present", "effect": "NoSchedule"},
    {"key": TEAM, "value": "c", "effect": "PreferNoSchedule"},
]
TOLERATIONS = [
    {"key": TEAM, "operator": "Equal", "value": "a", "effect": "NoSchedule"},
    {"key": TEAM, "operator": "Exists"},
    {"key": GPU, "operator": "Exists", "effect": "NoSchedule"},
    {"operator": "Exists"},
]
TOLERATED = {0: {0}, 1: {0, 1, 4}, 2: {3}, 3: {0, 1, 2, 3, 4}}
"""Which taints each toleration covers, by their places, as kubectl's documentation defines it."""


def some(chance, among, most):
    return chance.sample(range(len(among)), chance.randint(0, most))


def make_world(seed):
    """A pool with random nodes; by hand, the nodes that its pods may use with the GPUs that they get of each.

    And how many of its nodes have devices that stand for GPUs and that its scheduler gives to nobody.
    """
    chance = random.Random(seed)
    own = some(chance, TOLERATIONS[:3], 1)
    kinds = {"cpu": (some(chance, TOLERATIONS, 1)), "gpu": (some(chance, TOLERATIONS, 2))}
    pool = PoolFactory(
        levels=[ZONE, RACK],
        platforms=(),
        backend__scheduler_type=(scheduler := chance.choice(["kai", "kubernetes", "kueue"])),
        node_selector={"example.com/pool": "x"},
        tolerations=[TOLERATIONS[at] for at in own],
    )
    for name, tolerations in kinds.items():
        PlatformFactory(
            pool=pool,
            name=name,
            node_selector={"example.com/kind": name},
            tolerations=[TOLERATIONS[at] for at in tolerations],
        )
    usable, uncounted = {}, 0
    for number in range(NODES):
        name, kind, gpus = f"n{number}", chance.choice(["cpu", "gpu"]), chance.choice([0, 4, 8])
        taints, mine = some(chance, TAINTS, 2), chance.random() < 0.8
        ready, cordoned = chance.random() < 0.8, chance.random() < 0.2
        is_dra = gpus and chance.random() < 0.3
        NodeFactory(
            cluster=pool.backend.cluster,
            name=name,
            devices={"counted": {GPU: gpus}, "drivers": {"gpu.nvidia.com": gpus}} if is_dra else {},
            labels={
                "example.com/pool": "x" if mine else "y",
                "example.com/kind": kind,
                ZONE.label: "a",
                RACK.label: chance.choice("rs"),
            },
            allocatable={"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(gpus)},
            taints=[TAINTS[at] for at in taints],
            ready=ready,
            unschedulable=cordoned,
            taints_since={},
        )
        if is_dra and scheduler != "kubernetes":
            gpus, uncounted = 0, uncounted + mine
        covered = set().union(*(TOLERATED[at] for at in (*own, *kinds[kind])), {4})
        if mine and ready and not cordoned and {*taints} <= covered:
            usable[name] = gpus
    return Pool.objects.get(pk=pool.pk), usable, uncounted


def doors(pool):
    """The free GPUs of the pool, or its free nodes, by each door that shows them."""
    user = User(username="ann", is_superuser=True, is_staff=True)
    page = pool_content(pool, user=user, outcomes_since=timezone.now())
    (line,) = pool_lines([pool], user=user)
    nodes = nodes_of([pool])
    measure(pool.backend.cluster_id)
    drawn = map_content(pool, user=user, path=(), workflow=None, group="")
    count = drawn.place.tally
    gpus = {
        "pool page": page.room.free_gpus,
        "list of pools": line.room.free_gpus,
        "topology": room_of(pool).total.free_gpus,
        "quota": quota({pool.name: -1}, nodes, [], {}).usage[pool.name].total_free,
        "total of quota": quota({pool.name: -1}, nodes, [], {}).total.total_free,
        "map": count.free_gpus,
    }
    free = {
        "What fits now": page.fits.free,
        "fragmentation": pool_fragments(pool).free,
        "metrics": MeasuredFragments.objects.get(pool=pool).content["free"],
        "topology": room_of(pool).total.free_nodes,
        "map": drawn.fragments.free,
    }
    open_nodes = {
        "pool page": page.room.open_nodes,
        "list of pools": line.room.open_nodes,
        "map": count.nodes - count.closed,
    }
    uncounted = {
        "pool page": page.room.uncounted,
        "list of pools": line.room.uncounted,
        "topology": room_of(pool).total.uncounted_nodes,
    }
    return gpus, free, open_nodes, uncounted


@pytest.mark.parametrize("seed", range(WORLDS))
def test_every_door_counts_the_same_usable_nodes(seed):
    pool, usable, devices = make_world(seed)
    gpus, free, open_nodes, uncounted = doors(pool)
    assert set(gpus.values()) == {sum(usable.values())}, gpus
    with_gpus = any(node.allocatable.gpu for node in nodes_of([pool]))
    assert set(free.values()) == {sum(1 for gpus in usable.values() if gpus or not with_gpus)}, free
    assert set(open_nodes.values()) == {len(usable)}, open_nodes
    assert set(uncounted.values()) == {devices}, uncounted
