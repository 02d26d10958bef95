"""What the scheduler knows of the cluster, as frozen values.

``path[i]`` is the value of a Topology's i-th label, broadest first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from localcluster.standins.affinity import Terms
from localcluster.standins.quantities import Amounts
from localcluster.standins.taints import Taint, Toleration

Version = Literal["0.13", "0.13.2", "0.14", "0.15", "0.16.2", "0.17.0", "0.17"]
"""A row of ``versions``."""

GPU = "nvidia.com/gpu"
NODE_POOL = "default"


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    labels: Mapping[str, str]
    allocatable: Amounts
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    conditions: tuple[str, ...] = ()
    """Conditions for which KAI never uses it: NotReady, DiskPressure."""


@dataclass(frozen=True, slots=True)
class PodClaim:
    """A pod's reference to a claim; ``claim`` is None until the claim made from the template is known."""

    reference: str
    claim: str | None


@dataclass(frozen=True, slots=True)
class Shape:
    """All that placement asks of a pod; equal shapes are interchangeable."""

    requests: tuple[tuple[str, int], ...]
    selector: tuple[tuple[str, str], ...] = ()
    affinity: Terms = ()
    tolerations: tuple[Toleration, ...] = ()
    claims: int = 0

    def amounts(self) -> dict[str, int]:
        """Return the requests as a fresh mapping."""
        return dict(self.requests)


PodState = Literal["gated", "pending", "active", "releasing", "stuck", "succeeded", "failed"]
"""``stuck``: being deleted for so long that nobody waits for its room any more."""


@dataclass(frozen=True, slots=True)
class Pod:
    namespace: str
    name: str
    uid: str
    created: str
    state: PodState
    shape: Shape
    node: str | None = None
    deleted_at: float | None = None
    """When it was to be gone, in seconds since the epoch (``deletionTimestamp``)."""
    group: str | None = None
    subgroup: str | None = None
    queue_label: str | None = None
    claims: tuple[PodClaim, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    volume_claims: tuple[str, ...] = ()
    config_maps: tuple[str, ...] = ()
    """Names of those that it cannot do without."""
    owned: bool = False
    """Whether it has ownerReferences, which makes KAI's podgrouper put it in a group of its own making."""
    skips_grouper: bool = False
    """Annotated ``kai.scheduler/skip-podgrouper: "true"``, which v0.15 and later obey."""
    is_kai: bool = True
    """Whether ``schedulerName`` names KAI; others only take room on nodes."""
    unschedulable_message: str | None = None
    """Message of the pod's PodScheduled=False condition, if it has one."""

    @property
    def key(self) -> tuple[str, str]:
        return (self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Constraint:
    topology: str
    required: str = ""
    preferred: str = ""


@dataclass(frozen=True, slots=True)
class SubGroup:
    name: str
    min_member: int | None = None
    parent: str | None = None
    constraint: Constraint | None = None


@dataclass(frozen=True, slots=True)
class PodGroup:
    namespace: str
    name: str
    uid: str
    created: str
    queue: str = ""
    min_member: int | None = None
    subgroups: tuple[SubGroup, ...] = ()
    constraint: Constraint | None = None
    priority_class: str = ""
    preemptibility: str = ""
    mark_unschedulable: bool = True
    stale_since: float | None = None
    """Seconds since the epoch, from the annotation ``kai.scheduler/stale-podgroup-timestamp``."""
    grace: float | None = None
    """``spec.stalenessGracePeriod`` in seconds (v0.17), or None for the scheduler's default."""
    conditions: tuple[Mapping[str, Any], ...] = ()
    real: bool = True
    """False for the group of one made up for a pod without annotation."""


@dataclass(frozen=True, slots=True)
class QueueLimit:
    """Quota and limit of one resource in thousandths; -1 means unlimited."""

    quota: int = 0
    limit: int = 0


Written = tuple[tuple[str, str], ...]
"""Quantities by resource, in order of name."""


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """``fixed`` is the part of ``allocated`` that may not be preempted."""

    queue: str
    children: tuple[str, ...] = ()
    allocated: Written = ()
    fixed: Written = ()
    requested: Written = ()


@dataclass(frozen=True, slots=True)
class Queue:
    name: str
    parent: str = ""
    priority: int = 100
    cpu: QueueLimit = QueueLimit()
    memory: QueueLimit = QueueLimit()
    gpu: QueueLimit = QueueLimit()
    status: QueueStatus | None = None


@dataclass(frozen=True, slots=True)
class Topology:
    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Device:
    driver: str
    pool: str
    name: str
    node: str
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.driver, self.pool, self.name)


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    name: str
    device_class: str
    count: int = 1
    every: bool = False
    """``allocationMode: All``: every matching device of the node."""
    selectors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    namespace: str
    name: str
    uid: str
    requests: tuple[ClaimRequest, ...] = ()
    allocated: tuple[tuple[str, str, str], ...] | None = None
    """Keys of the devices it holds, or None while it is not allocated."""
    node: str | None = None
    reserved_for: tuple[str, ...] = ()
    """Uids of the pods that may use it."""
    deleting: bool = False
    config: tuple[Mapping[str, Any], ...] = ()
    """``spec.devices.config``, copied into the allocation as it is."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The cluster at one moment; everything ``cycle.schedule`` may look at."""

    now: float
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    groups: tuple[PodGroup, ...] = ()
    queues: tuple[Queue, ...] = ()
    topologies: tuple[Topology, ...] = ()
    priorities: Mapping[str, int] = field(default_factory=dict)
    default_priority: int = 50
    devices: tuple[Device, ...] = ()
    device_classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """CEL selectors by DeviceClass."""
    claims: tuple[Claim, ...] = ()
    volume_claims: Mapping[tuple[str, str], bool] = field(default_factory=dict)
    """By namespace and name, whether a PersistentVolumeClaim is being deleted."""
    config_maps: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class ClaimAllocation:
    """Devices taken for one claim: per device the request's name and the device's key."""

    claim: Claim
    node: str
    devices: tuple[tuple[str, tuple[str, str, str]], ...]


@dataclass(frozen=True, slots=True)
class Binding:
    pod: Pod
    node: str
    group: str
    allocations: tuple[ClaimAllocation, ...] = ()
    reserve: tuple[Claim, ...] = ()
    """Claims that were allocated before and only need this pod in ``reservedFor``."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod to delete, with the text and annotations of the event on its group."""

    pod: Pod
    group: PodGroup
    message: str
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Event:
    """``kind`` is Pod or PodGroup."""

    kind: str
    namespace: str
    name: str
    uid: str
    type: str
    reason: str
    message: str
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupCondition:
    """The whole new list of ``status.schedulingConditions``; empty to clear it."""

    group: PodGroup
    conditions: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class StaleMark:
    """Set the stale annotation to ``since``, or remove it (None)."""

    group: PodGroup
    since: float | None


@dataclass(frozen=True, slots=True)
class EvictionMark:
    """Write the time of its last eviction on the group."""

    group: PodGroup
    at: float


@dataclass(frozen=True, slots=True)
class PodUnschedulable:
    pod: Pod
    message: str


@dataclass(frozen=True, slots=True)
class Decisions:
    bindings: tuple[Binding, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    group_conditions: tuple[GroupCondition, ...] = ()
    stale_marks: tuple[StaleMark, ...] = ()
    eviction_marks: tuple[EvictionMark, ...] = ()
    pod_conditions: tuple[PodUnschedulable, ...] = ()
    queue_statuses: tuple[QueueStatus, ...] = ()
    events: tuple[Event, ...] = ()
    wake_at: float | None = None
    """When to look again although nothing changed (end of a grace period)."""
