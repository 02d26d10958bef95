"""Nodes as a cluster shows them, and as rows of a pool's cluster."""

from datetime import UTC, datetime, timedelta

from cluster.kinds import NODE
from tests.factories import RACK, ZONE, NodeFactory, PoolFactory

ALLOCATABLE = {"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": "8", "pods": "110"}
REASONS = {"True": "KubeletReady", "False": "KubeletNotReady", "Unknown": "NodeStatusUnknown"}


def node(name, *, labels=None, allocatable=None, ready="True", ago=0, cordoned=False, others=()):
    """A node whose Ready condition is ``ago`` seconds old; ``others`` are further conditions."""
    since = (datetime.now(UTC) - timedelta(seconds=ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"type": "Ready", "status": ready, "reason": REASONS[ready], "lastTransitionTime": since}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels or {}},
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {"conditions": [condition, *others], "allocatable": allocatable or {}},
    }


def put_node(world, name, *, zone=None, rack=None, gpus=1):
    """A node that is ready and has this place in the topology."""
    labels = {level.label: value for level, value in ((ZONE, zone), (RACK, rack)) if value}
    allocatable = ALLOCATABLE | {"nvidia.com/gpu": str(gpus)}
    world.cluster.put(NODE, node(name, labels=labels, allocatable=allocatable))


def racked_pool(*sizes, **changes):
    """A pool with zones and racks, and one rack of each of these many nodes, in one zone."""
    pool = PoolFactory(levels=[ZONE, RACK], **changes)
    racks = [f"r{number}" for number, size in enumerate(sizes) for _ in range(size)]
    for number, rack in enumerate(racks):
        labels = {ZONE.label: "a", RACK.label: rack}
        NodeFactory(cluster=pool.backend.cluster, name=f"n{number:02}", labels=labels)
    return pool
