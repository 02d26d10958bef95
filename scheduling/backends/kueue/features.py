"""What a cluster with Kueue must serve: each field of a Workload that is written or read, and queues.

Of queues, flavors and Topologies only the kinds are looked up: administrators write them, and the conditions
of a pool say what they hold. Their fields would need the right to read four more definitions.
"""

from collections.abc import Iterator

from scheduling.backends.base import Feature, Purpose, ResourceKind
from scheduling.backends.kueue.queues import CLUSTER_QUEUE, FLAVOR, LOCAL_QUEUE, TOPOLOGY

WORKLOAD = ResourceKind("kueue.x-k8s.io/v1beta2", "Workload", "workloads")

_GANG = (
    ("queueName",),
    ("active",),
    ("maximumExecutionTimeSeconds",),
    ("priority",),
    ("priorityClassRef", "name"),
    ("podSets", "name"),
    ("podSets", "count"),
    ("podSets", "template"),
)
_ASSIGNMENT = ("status", "admission", "podSetAssignments", "topologyAssignment")
_CONSTRAINT = (
    "required",
    "preferred",
    "unconstrained",
    "podSetSliceRequiredTopology",
    "podSetSliceSize",
)


def _features() -> Iterator[Feature]:
    yield Feature(WORKLOAD, (), Purpose.SCHEDULER)
    for path in _GANG:
        yield Feature(WORKLOAD, ("spec", *path), Purpose.SCHEDULER)
    for field in ("podCounts", "valuesPerLevel"):
        yield Feature(WORKLOAD, (*_ASSIGNMENT, "slices", field), Purpose.SCHEDULER)
    for field in _CONSTRAINT:
        yield Feature(WORKLOAD, ("spec", "podSets", "topologyRequest", field), Purpose.TOPOLOGY)
    for kind in (LOCAL_QUEUE, CLUSTER_QUEUE, FLAVOR, TOPOLOGY):
        yield Feature(kind, (), Purpose.SCHEDULER)


FEATURES = tuple(_features())
