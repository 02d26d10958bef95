"""What a cluster with KAI must serve so that it keeps every rendered field; for the conformance card.

The card also lists fields of later versions that nothing here uses: they show an administrator which version
is installed.
"""

from collections.abc import Iterator

from scheduling.backends.base import Feature, Purpose, ResourceKind

POD_GROUP = ResourceKind("scheduling.run.ai/v2alpha2", "PodGroup", "podgroups")
QUEUE = ResourceKind("scheduling.run.ai/v2", "Queue", "queues", namespaced=False)
BIND_REQUEST = ResourceKind("scheduling.run.ai/v1alpha2", "BindRequest", "bindrequests")
TOPOLOGY = ResourceKind("kai.scheduler/v1alpha1", "Topology", "topologies", namespaced=False)

_GANG = (
    ("queue",),
    ("minMember",),
    ("subGroups", "name"),
    ("subGroups", "minMember"),
    ("subGroups", "parent"),
)
_CONSTRAINT = ("topology", "requiredTopologyLevel", "preferredTopologyLevel")


def _features() -> Iterator[Feature]:
    yield Feature(POD_GROUP, (), Purpose.SCHEDULER)
    for path in _GANG:
        yield Feature(POD_GROUP, ("spec", *path), Purpose.SCHEDULER)
    for above in ((), ("subGroups",)):
        for field in _CONSTRAINT:
            yield Feature(POD_GROUP, ("spec", *above, "topologyConstraint", field), Purpose.TOPOLOGY)
    yield Feature(POD_GROUP, ("spec", "subGroups", "minSubGroup"), Purpose.NOTHING)
    yield Feature(QUEUE, (), Purpose.SCHEDULER)
    yield Feature(QUEUE, ("spec", "parentQueue"), Purpose.SCHEDULER)
    yield Feature(QUEUE, ("spec", "preemptMinRuntime"), Purpose.NOTHING)
    yield Feature(QUEUE, ("spec", "reclaimMinRuntime"), Purpose.NOTHING)
    yield Feature(TOPOLOGY, (), Purpose.TOPOLOGY)
    yield Feature(TOPOLOGY, ("spec", "levels", "nodeLabel"), Purpose.TOPOLOGY)
    yield Feature(TOPOLOGY, ("spec", "levels", "alias"), Purpose.NOTHING)


FEATURES = tuple(_features())
