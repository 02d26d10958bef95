"""The values that scheduler backends take and return; ``facets`` has the backends themselves."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal
from uuid import UUID

from scheduling import names
from scheduling.errors import Fault, Notice
from scheduling.gang.gang_form import USUAL_FORM, GangForm
from scheduling.queues.joined_queues import JoinedQueue, QueuePosition
from scheduling.terms import SchedulingTerms
from scheduling.topology.levels import Levels
from scheduling.topology.requirements import Gang, SetPath, members_json

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """A kind of object as the API serves it: ``scheduling.run.ai/v2alpha2``, ``PodGroup``, ``podgroups``."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def crd(self) -> str:
        """Name of the CustomResourceDefinition: ``podgroups.scheduling.run.ai``."""
        return f"{self.plural}.{self.api_version.partition('/')[0]}"


@dataclass(frozen=True, slots=True)
class ObjectQuery:
    """Objects of a scheduler's own installation, to read for a preflight: one by ``name``, or all.

    ``document`` is a key in ``data`` of a ConfigMap: then the YAML document there is read, in place of the
    object, because a scheduler backend reads no YAML.
    """

    key: str
    resource: ResourceKind
    namespace: str = ""
    name: str = ""
    document: str = ""


class Purpose(StrEnum):
    """What is impossible without a feature: the scheduler, topology keys, NVLink; NOTHING: not needed."""

    SCHEDULER = "scheduler"
    TOPOLOGY = "topology"
    NVLINK = "nvlink"
    NOTHING = ""


@dataclass(frozen=True, slots=True)
class Feature:
    """A kind that is served, or, with ``path``, a field of it; lists on the way are walked through."""

    resource: ResourceKind
    path: tuple[str, ...]
    purpose: Purpose

    @property
    def name(self) -> str:
        return ".".join((self.resource.kind, *self.path))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBack:
    """The parts of a scheduler's pod groups that the observer keeps, because the backend reads it."""

    status: tuple[str, ...] = ("conditions",)
    """Fields of their status."""

    annotations: tuple[str, ...] = ()
    """Those that the scheduler puts on them."""

    events: tuple[str, ...] = ()
    """Reasons of events that change the state of a gang."""

    waiting: tuple[str, ...] = ()
    """Those of them that explain why it waits."""

    evicting: tuple[str, ...] = ()
    """Those of them that explain why its pods were deleted."""

    stale: str = ""
    """The annotation with the time since when a gang is below its minimum; empty: no such gang is evicted."""

    stale_grace: float = 60.0
    """After how many seconds the scheduler evicts such a gang."""

    evicted: str = ""
    """The annotation with the time of its last eviction."""

    event_annotation: str = ""
    """An event's annotation with the action that evicted a pod.

    It is stored behind the event's message, as ``(action: …)``.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """How a backend shares with others a scheduler that has queues."""

    prefix: str = names.QUEUE_PREFIX
    """Begins the names of our queues."""

    parent: str = ""
    """Somebody else's queue above the pools' queues; empty: one of ours."""

    parent_gpus: float = -1
    """How many GPUs a parent of ours guarantees; -1: unlimited."""

    label: str = ""
    """The label key by which pods name their queue; empty: the scheduler's usual one."""

    shard: Mapping[str, str] = field(default_factory=dict)
    """The node label and its value that select a part of the cluster's nodes; empty: the usual ones."""

    preempt_min_runtime: float = 0
    """For how many seconds work runs before other work may preempt it; 0: none."""

    reclaim_min_runtime: float = 0
    """For how many seconds it runs before another queue may reclaim its room; 0: none."""

    preemption_delay: float = 0
    """For how many seconds a group waits before other work is evicted for it; 0: none."""

    own: bool = False
    """Whether pools that join no foreign queue have one of ours.

    For a scheduler whose facet ``joined_queues`` has ``owned_kinds``.
    """

    def queue(self, namespace: str, pool: str) -> str:
        return names.queue(namespace, pool, prefix=self.prefix)

    def parent_queue(self, namespace: str) -> str:
        return self.parent or names.parent_queue(namespace, prefix=self.prefix)


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check: a fault refuses the gang, a notice informs its user."""

    faults: tuple[Fault, ...]
    notices: tuple[Notice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GangRequest:
    """A gang to render, with everything frozen at its submission."""

    group: UUID
    gang: Gang
    terms: SchedulingTerms

    priority_class: str
    """Its name in the cluster; empty: none."""

    generation: int = 0
    """The generation of its pod groups, counted from 0."""

    labels: Mapping[str, str] = field(default_factory=dict)
    """Of the pod groups, as ``annotations`` are; the service's own replace them."""

    annotations: Mapping[str, str] = field(default_factory=dict)

    form: GangForm = USUAL_FORM

    pod_specs: Mapping[str, Manifest] = field(default_factory=dict)
    """The specs of pods by the shape of their tasks, for a scheduler with the facet ``admission``."""

    nodes: Mapping[str, str] = field(default_factory=dict)
    """The nodes that such a scheduler assigned, by task; empty before."""


@dataclass(frozen=True, slots=True)
class PodParts:
    """The fields by which a scheduler takes a pod as part of its gang; pods of one leaf share them.

    ``spec`` has further fields of the pod's spec, to be merged at the top; ``node_labels`` are labels that
    its node must carry, beside those that select its platform's nodes; ``labels_present`` are labels that it
    must carry with any value.
    """

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    scheduler_name: str
    spec: Mapping[str, Any]
    node_labels: Mapping[str, str] = field(default_factory=dict)
    labels_present: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AppliedConstraint:
    """One requirement as the scheduler applies it, for the API."""

    path: SetPath
    """Names the set; empty: the whole group."""

    key: str

    label: str
    """The one that the scheduler reads."""

    requirement: Literal["required", "preferred"]

    tasks: int
    """How many tasks the set has."""

    subgroup: str
    """The set's name in the pod group; empty: the pod group itself."""

    held_by: str | None
    """A narrower key that already implies this one."""

    wait_seconds: float | None = None
    """With it, a preference is applied as required until it is ``relaxed``."""

    relaxed: bool = False

    freed: bool = False
    """Whether it is a preference that gave way."""

    applied_key: str | None = None
    """The key at which such a preference is applied; None: it is not applied, and has no label."""

    domain: tuple[str, ...] = ()
    """The one that node labels keep the set in, in place of a constraint."""

    def as_json(self) -> dict[str, Any]:
        patience = {"waitSeconds": self.wait_seconds, "relaxed": self.relaxed}
        freedom = {"freed": True, "applied_key": self.applied_key}
        return {
            "set": members_json(self.path),
            "key": self.key,
            "label": self.label,
            "requirementType": self.requirement,
            "tasks": self.tasks,
            "subgroup": self.subgroup,
            "held_by": self.held_by,
            **({} if self.wait_seconds is None else patience),
            **(freedom if self.freed else {}),
            **({"domain": list(self.domain)} if self.domain else {}),
        }


@dataclass(frozen=True, slots=True)
class RenderedGang:
    """A gang as one scheduler's objects.

    ``topologies`` are the Topology objects that its constraints name; they must exist before the pod groups.
    So must ``parents``, which stand above the pod groups in a tree, in order of creation.
    ``sets`` maps each subgroup (or pod group) to the user's name of its set. ``never_stale``: the scheduler
    does not evict the gang for being below its minimum. ``optional_leaves``: a minimum may be 0.
    """

    pod_groups: tuple[Manifest, ...]
    pods: Mapping[str, PodParts]
    topologies: tuple[Manifest, ...]
    constraints: tuple[AppliedConstraint, ...]
    sets: Mapping[str, str]
    never_stale: bool = False
    optional_leaves: bool = False
    parents: tuple[Manifest, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRequest:
    """A pool, as far as its scheduler needs objects for it."""

    namespace: str
    pool: str
    installation: UUID
    levels: Levels

    gpu_guarantee: float = -1
    """GPUs, as ``gpu_maximum`` is; -1: unlimited."""

    gpu_maximum: float = -1
    gpu_weight: float = 1

    external_topology: str = ""
    """With one, the pool has no topology objects of ours."""

    queues: QueueSettings = field(default_factory=QueueSettings)

    local_queue: str = ""
    """The queue of somebody else's that the pool joins; empty: none.

    For a scheduler with the facet ``joined_queues``, as the next two fields are.
    """

    node_selector: Mapping[str, str] = field(default_factory=dict)
    """The labels of its nodes."""

    resources: frozenset[str] = frozenset()
    """Those that its pod templates request."""


@dataclass(frozen=True, slots=True)
class BindFailure:
    """A binder failed on a node that the scheduler had chosen; ``since`` as Kubernetes writes times."""

    message: str
    since: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The observations of a gang that waits."""

    placed: bool
    """Whether all its pods have nodes."""

    expected: tuple[str, ...]
    """The names of the pod groups that should exist."""

    pod_groups: tuple[Mapping[str, Any], ...]
    """Those that exist, as manifests with status."""

    pods: int
    """How many pods exist."""

    pods_expected: int
    """How many should."""

    levels: Levels

    sets: Mapping[str, str]
    """From rendering."""

    events: tuple[Mapping[str, Any], ...] = ()
    """Those about the pod groups."""

    pod_messages: tuple[str, ...] = ()
    """The distinct messages of pods' ``PodScheduled`` conditions."""

    bind_failures: tuple[BindFailure, ...] = ()
    """On pods without a node, which keep them whatever happens afterwards."""

    domains: Mapping[str, str] | None = None
    """The name of each domain for people, by its joined label values; None: no node is known."""

    any_closed: bool | None = None
    """Whether a node that its tasks may use is cordoned or not ready; None: no node is known."""

    queue: JoinedQueue | None = None
    """The one that the gang joined, for a scheduler with the facet ``joined_queues``."""

    position: QueuePosition | None = None
    """The gang's among this service's gangs that wait there."""

    seconds: float = 0.0
    """For how long its pod groups exist."""


class WaitKind(StrEnum):
    """The subject of a scheduler's reason; each is a kind of the explanation, which has more."""

    QUOTA = "quota"
    TOPOLOGY = "topology"
    CAPACITY = "capacity"
    NODES = "nodes_closed"
    POD = "pod_not_placeable"
    CLAIM = "claim"
    PODS = "pods_missing"
    NOT_SERVED = "compute_domain_not_served"
    DRIFT = "drift"
    OTHER = "scheduler"


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of a reason's code; ``help`` says what can be done, empty for what the kind says."""

    kind: WaitKind
    help: str = ""


UNRECOGNISED = "Unrecognised"
"""The code of a scheduler's text that no pattern knows; it is passed on as the scheduler wrote it."""


@dataclass(frozen=True, slots=True)
class WaitingReason:
    """Why a gang waits, in a sentence; ``raw`` is the scheduler's own text, ``facts`` the values in it."""

    code: str
    message: str
    raw: str = ""
    facts: tuple[tuple[str, str], ...] = ()


class EvictionCause(StrEnum):
    """Why a scheduler evicted a pod."""

    PREEMPTION = "preemption"
    RECLAIM = "reclaim"
    CONSOLIDATION = "consolidation"
    STALE_GANG = "stale_gang"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Eviction:
    """The cause of an eviction; ``message`` is a sentence with the scheduler's own text."""

    cause: EvictionCause
    message: str


class RoomCause(StrEnum):
    """Why an admitted gang has lost its room."""

    PREEMPTED = "preempted"
    """Other work needs it, or an administrator drains the queue."""
    NODE_FAILED = "node_failed"
    """A node of it failed and there is no replacement."""
    NOT_READY = "not_ready"
    """Its pods were not ready in the time that the scheduler gives them."""
    DELETED = "deleted"
    """Somebody deleted the object that keeps it, or its admission; others may get its nodes at once."""
    REJECTED = "rejected"
    """A check of its queue refused the gang for good."""
    SWITCHED_OFF = "switched_off"
    """Somebody switched the gang off, until somebody switches it on again."""


@dataclass(frozen=True, slots=True)
class RoomLoss:
    """How an admitted gang lost its room; ``reason`` is in the scheduler's words."""

    cause: RoomCause
    reason: str


@dataclass(frozen=True, slots=True)
class Admission:
    """The answer of a scheduler that admits a gang before its pods exist.

    With ``lost`` it took the room back: the pods have to go before it admits the gang again. A gang that is
    ``switched_off`` has no room, and gets none before somebody switches it on again.
    """

    admitted: bool = False
    lost: RoomLoss | None = None
    switched_off: bool = False
