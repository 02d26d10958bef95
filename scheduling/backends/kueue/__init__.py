"""Kueue as a scheduler backend."""

from scheduling.backends.base import ReadBack
from scheduling.backends.facets import SchedulerBackend, SchedulerTraits, TopologyObjects
from scheduling.backends.kueue import queues
from scheduling.backends.kueue.features import FEATURES, WORKLOAD
from scheduling.backends.kueue.foreign_workloads import KueueForeignGangs
from scheduling.backends.kueue.render import Kueue as Kueue


def _takes_pod(key: str) -> bool:
    """Whether Kueue's own integrations would take a pod with this key."""
    return key.startswith("kueue.x-k8s.io/")


_IMPLEMENTATION = Kueue()

KUEUE = SchedulerBackend(
    product="Kueue",
    scheduler_name="default-scheduler",
    pod_group=WORKLOAD,
    read_back=ReadBack(status=("conditions", "admission", "admissionChecks", "requeueState")),
    features=FEATURES,
    reads_label=_takes_pod,
    reads_annotation=_takes_pod,
    traits=SchedulerTraits(hides_unlabelled=True, fits_best=True),
    rendering=_IMPLEMENTATION,
    joined_queues=_IMPLEMENTATION,
    admission=_IMPLEMENTATION,
    topologies=TopologyObjects(kind=queues.TOPOLOGY, levels_in=queues.levels_in),
    texts=_IMPLEMENTATION,
    foreign=KueueForeignGangs(),
    installation=_IMPLEMENTATION,
)
