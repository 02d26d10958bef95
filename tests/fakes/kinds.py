"""Kinds that only tests name: those of the built-in scheduler backends."""

from pools.clusters.kinds import as_kind
from scheduling.backends.kai import features
from scheduling.backends.kubernetes import Kubernetes
from scheduling.backends.kueue import Kueue

KAI_POD_GROUP = as_kind(features.POD_GROUP)
KAI_QUEUE = as_kind(features.QUEUE)
KAI_TOPOLOGY = as_kind(features.TOPOLOGY)
KAI_BIND_REQUEST = as_kind(features.BIND_REQUEST)
POD_GROUP = as_kind(Kubernetes.pod_group)
WORKLOAD = as_kind(Kueue.pod_group)

KUEUE_QUEUES = tuple(map(as_kind, Kueue.owned_kinds))
"""In order of creation: Topology, ResourceFlavor, ClusterQueue, LocalQueue."""

FURTHER = (KAI_POD_GROUP, KAI_QUEUE, KAI_TOPOLOGY, POD_GROUP, WORKLOAD, *KUEUE_QUEUES)
