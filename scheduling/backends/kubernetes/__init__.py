"""Kubernetes' own scheduler as a scheduler backend."""

from scheduling.backends.base import ReadBack
from scheduling.backends.facets import SchedulerBackend
from scheduling.backends.kubernetes.features import COMPOSITE, FEATURES, POD_GROUP, WORKLOAD
from scheduling.backends.kubernetes.render import Kubernetes as Kubernetes

_IMPLEMENTATION = Kubernetes()

KUBERNETES = SchedulerBackend(
    scheduler_name="default-scheduler",
    pod_group=POD_GROUP,
    parents=(WORKLOAD, COMPOSITE),
    read_back=ReadBack(),
    features=FEATURES,
    rendering=_IMPLEMENTATION,
    texts=_IMPLEMENTATION,
)
