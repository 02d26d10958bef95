"""Kinds that only tests name: those of the built-in scheduler backends."""

from pools.clusters.kinds import as_kind
from scheduling.backends.kai import features
from scheduling.backends.kubernetes import KUBERNETES
from scheduling.backends.kueue import KUEUE

KAI_POD_GROUP = as_kind(features.POD_GROUP)
KAI_QUEUE = as_kind(features.QUEUE)
KAI_TOPOLOGY = as_kind(features.TOPOLOGY)
KAI_BIND_REQUEST = as_kind(features.BIND_REQUEST)
POD_GROUP = as_kind(KUBERNETES.pod_group)
GROUP_WORKLOAD, COMPOSITE = map(as_kind, KUBERNETES.parents)
WORKLOAD = as_kind(KUEUE.pod_group)

KUEUE_QUEUES = tuple(map(as_kind, KUEUE.joined_queues.owned_kinds))
"""In order of creation: Topology, ResourceFlavor, ClusterQueue, LocalQueue."""

FURTHER = (
    KAI_POD_GROUP,
    KAI_QUEUE,
    KAI_TOPOLOGY,
    POD_GROUP,
    GROUP_WORKLOAD,
    COMPOSITE,
    WORKLOAD,
    *KUEUE_QUEUES,
)
