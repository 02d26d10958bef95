"""What the stand-in for Kueue decides on, and what it decides; amounts are thousandths of a unit."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from localcluster.standins.affinity import Terms
from localcluster.standins.quantities import Amounts
from localcluster.standins.taints import Taint, Toleration

HOSTNAME = "kubernetes.io/hostname"
PODS = "pods"


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    labels: Mapping[str, str]
    allocatable: Amounts
    taints: tuple[Taint, ...] = ()
    ready: bool = True
    unready_since: float | None = None
    unschedulable: bool = False


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that takes room on a node; ``topology_aware`` ones count through their workload."""

    node: str
    requests: Amounts
    topology_aware: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """``topologyRequest`` of a pod set."""

    required: str | None = None
    preferred: str | None = None
    unconstrained: bool = False
    slice_level: str | None = None
    slice_size: int | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True)
class PodSet:
    """``requests`` are one pod's."""

    name: str
    count: int
    requests: Amounts
    request: Request | None = None
    selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    affinity: Terms = ()


@dataclass(frozen=True, slots=True)
class Assignment:
    """``domains`` are values of the named levels with a count of pods, in order."""

    levels: tuple[str, ...]
    domains: tuple[tuple[tuple[str, ...], int], ...]

    @property
    def by_node(self) -> bool:
        return self.levels == (HOSTNAME,)


@dataclass(frozen=True, slots=True)
class PodSetAdmission:
    name: str
    count: int
    flavors: tuple[tuple[str, str], ...]
    usage: tuple[tuple[str, int], ...]
    assignment: Assignment | None = None


@dataclass(frozen=True, slots=True)
class Admission:
    queue: str
    pod_sets: tuple[PodSetAdmission, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    type: str
    status: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Workload:
    namespace: str
    name: str
    uid: str
    version: str
    created: str
    priority: int
    queue: str
    pod_sets: tuple[PodSet, ...]
    conditions: tuple[Condition, ...] = ()
    admission: Admission | None = None
    active: bool = True
    deleting: bool = False
    queued_again_at: str = ""
    """When it was evicted such that it queues from then on; empty: from its creation."""
    job_uid: str = "UNKNOWN"

    def condition(self, kind: str) -> Condition | None:
        return next((each for each in self.conditions if each.type == kind), None)

    def holds(self, kind: str) -> bool:
        """Whether a condition is true."""
        return (condition := self.condition(kind)) is not None and condition.status


@dataclass(frozen=True, slots=True)
class Guard:
    """Whether Kueue's finalizer is on an object, and whether the object is being deleted."""

    on: bool = True
    deleting: bool = False


GUARDED = Guard()


@dataclass(frozen=True, slots=True)
class FlavorQuota:
    name: str
    nominal: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """``groups`` are resource groups: covered resources and flavors in order of preference."""

    name: str
    groups: tuple[tuple[tuple[str, ...], tuple[FlavorQuota, ...]], ...]
    strict: bool = False
    within: str = "Never"
    stop: str = "None"
    namespaces: Mapping[str, str] | None = field(default_factory=dict)
    """Labels that a namespace must have; None admits none."""
    status: Mapping[str, Any] = field(default_factory=dict)
    guard: Guard = GUARDED


@dataclass(frozen=True, slots=True)
class LocalQueue:
    namespace: str
    name: str
    queue: str
    stop: str = "None"
    status: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Flavor:
    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str | None = None
    guard: Guard = GUARDED


@dataclass(frozen=True, slots=True)
class Topology:
    name: str
    levels: tuple[str, ...]
    guard: Guard = GUARDED


@dataclass(frozen=True, slots=True)
class Snapshot:
    now: float
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    workloads: tuple[Workload, ...] = ()
    cluster_queues: tuple[ClusterQueue, ...] = ()
    local_queues: tuple[LocalQueue, ...] = ()
    flavors: tuple[Flavor, ...] = ()
    topologies: tuple[Topology, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one workload's status; ``admission`` is written where ``readmit`` is set."""

    workload: Workload
    conditions: tuple[Condition, ...] = ()
    admission: Admission | None = None
    readmit: bool = False


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """``queue`` is the status' owner; the rest goes into its status as it stands here."""

    queue: ClusterQueue | LocalQueue
    status: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GuardChange:
    """Kueue's finalizer goes on the object or off it."""

    of: ClusterQueue | Flavor | Topology
    on: bool


@dataclass(frozen=True, slots=True)
class Decisions:
    guards: tuple[GuardChange, ...] = ()
    changes: tuple[Change, ...] = ()
    statuses: tuple[QueueStatus, ...] = ()
    wake_at: float | None = None
