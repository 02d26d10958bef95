"""Kinds that only tests name: those of the built-in scheduler backends, and a plain one."""

from cluster.kinds import Kind
from pools.clusters.kinds import as_kind
from scheduling.backends.kai import features
from scheduling.backends.kubernetes import Kubernetes

KAI_POD_GROUP = as_kind(features.POD_GROUP)
KAI_QUEUE = as_kind(features.QUEUE)
KAI_TOPOLOGY = as_kind(features.TOPOLOGY)
POD_GROUP = as_kind(Kubernetes.pod_group)

CONFIG_MAP = Kind("ConfigMap", "", "v1", "configmaps")

FURTHER = (KAI_POD_GROUP, KAI_QUEUE, KAI_TOPOLOGY, POD_GROUP, CONFIG_MAP)
