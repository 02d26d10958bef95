"""Kubernetes' own scheduler as a scheduler backend."""

from scheduling.backends.base import ReadBack
from scheduling.backends.facets import SchedulerBackend, SchedulerTraits
from scheduling.backends.kubernetes.foreign_groups import KubernetesForeignGangs
from scheduling.backends.kubernetes.gang import Kubernetes as Kubernetes
from scheduling.backends.kubernetes.group_kinds import (
    COMPOSITE,
    COMPOSITE_GATE,
    FEATURES,
    POD_GROUP,
    WORKLOAD,
)
from scheduling.backends.kubernetes.reasons import loses_preemptor

_IMPLEMENTATION = Kubernetes()

KUBERNETES = SchedulerBackend(
    product="Kubernetes",
    scheduler_name="default-scheduler",
    pod_group=POD_GROUP,
    hidden_gate=COMPOSITE_GATE,
    parents=(WORKLOAD, COMPOSITE),
    read_back=ReadBack(),
    features=FEATURES,
    loses_preemptor=loses_preemptor,
    traits=SchedulerTraits(prefers_by_affinity=True, pins_sets=True, gives_devices=True),
    rendering=_IMPLEMENTATION,
    texts=_IMPLEMENTATION,
    foreign=KubernetesForeignGangs(),
    installation=_IMPLEMENTATION,
)
