"""The interface of a scheduler backend: the code that turns task groups into one scheduler's objects.

A backend is pure: it takes values and returns manifests, faults and sentences; ``cluster`` does the I/O.
Manifests are complete, so a dry run shows exactly what a worker will create. A manifest never depends on the
clock or on chance: rendering twice gives the same objects, so a retried pod gets the fields of the pod it
replaces.

Packages add backends by an entry point (``registry``). A backend declares what it can hold as data
(``capabilities``); ``checks.check_gang`` does the rest.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any, Literal, Protocol, runtime_checkable
from uuid import UUID

from scheduling import names
from scheduling.capabilities import Capabilities, Capability, SchedulerVersion
from scheduling.checks import UnsupportedPreferred
from scheduling.errors import Fault, Notice
from scheduling.joined_queues import JoinedQueue, QueuedGang, QueuePosition, Readings
from scheduling.levels import Domain, Level, Levels
from scheduling.pins import Pins
from scheduling.preflight import CheckResult, Observed
from scheduling.queues import QueueAmounts, QueueShortage, QueueState
from scheduling.requirements import Gang, SetPath
from scheduling.set_order import SetOrder
from scheduling.terms import SchedulingTerms

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """A kind of object as the API serves it: ``scheduling.run.ai/v2alpha2``, ``PodGroup``, ``podgroups``.

    ``other_versions`` of its group serve objects of the same shape, in other releases.
    """

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True
    other_versions: tuple[str, ...] = ()

    @property
    def api_versions(self) -> tuple[str, ...]:
        group = self.api_version.partition("/")[0]
        return (self.api_version, *(f"{group}/{version}" for version in self.other_versions))

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
    """What the observer keeps of a scheduler's pod groups, because the backend reads it.

    ``status`` names fields of their status, ``annotations`` those that the scheduler puts on them. ``events``
    are reasons of events that change the state of a gang: ``waiting`` explain why it waits, ``evicting`` why
    its pods were deleted. ``stale`` is the annotation with the time since when a gang is below its minimum,
    for a scheduler that evicts such gangs, after ``stale_grace`` seconds; ``evicted`` is the annotation with
    the time of its last eviction. ``event_annotation`` is an event's annotation with the action that evicted
    a pod; it is stored behind the event's message, as ``(action: …)``.
    """

    status: tuple[str, ...] = ("conditions",)
    annotations: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    evicting: tuple[str, ...] = ()
    stale: str = ""
    stale_grace: float = 60.0
    evicted: str = ""
    event_annotation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """How a backend shares a scheduler with queues with others.

    ``prefix`` begins the names of our queues. ``parent`` is somebody else's queue above the pools' queues;
    empty: one of ours, which guarantees ``parent_gpus`` GPUs (-1: unlimited). ``label`` is the label key by
    which pods name their queue, ``shard`` the node label and its value that select a part of the cluster's
    nodes; both empty: the scheduler's usual ones. The other fields are seconds, 0 for none: how long work
    runs before other work may preempt it, or another queue reclaim its room, and how long a group waits
    before other work is evicted for it. ``own``: of a scheduler that ``OwnsQueues``, pools that join no queue
    of somebody else's have one of ours.
    """

    prefix: str = names.QUEUE_PREFIX
    parent: str = ""
    parent_gpus: float = -1
    label: str = ""
    shard: Mapping[str, str] = field(default_factory=dict)
    preempt_min_runtime: float = 0
    reclaim_min_runtime: float = 0
    preemption_delay: float = 0
    own: bool = False

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
    """How often the whole gang was created before, from 0."""

    labels: Mapping[str, str] = field(default_factory=dict)
    """Of the pod groups, as ``annotations`` are; the service's own replace them."""

    annotations: Mapping[str, str] = field(default_factory=dict)

    stage: int = 0
    """How many preferences are relaxed by now (``scheduling.stages``)."""

    preference_levels: int | None = None
    """How many levels preferences may still name (``scheduling.free_preferences``); None: all."""

    order: SetOrder = ()
    """The order of the gang's sets, for a scheduler that ``OrdersSets``."""

    pins: Pins = ()
    """The sets that node labels keep in a domain, for a scheduler that ``CountsLargest``."""

    pod_specs: Mapping[str, Manifest] = field(default_factory=dict)
    """The specs of pods by the shape of their tasks, for a scheduler that ``AdmitsBeforePods``."""

    nodes: Mapping[str, str] = field(default_factory=dict)
    """The nodes that such a scheduler assigned, by task; empty before."""


@dataclass(frozen=True, slots=True)
class PodParts:
    """The fields by which a scheduler takes a pod as part of its gang; pods of one leaf share them.

    ``spec`` has further fields of the pod's spec, to be merged at the top; ``node_labels`` are labels that
    its node must carry, beside those that select its platform's nodes.
    """

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    scheduler_name: str
    spec: Mapping[str, Any]
    node_labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AppliedConstraint:
    """One requirement as the scheduler applies it, for the API. ``label`` is the one that it reads.

    ``path`` names the set (empty: the whole group), ``tasks`` counts its tasks, ``subgroup`` is its name in
    the pod group (empty: the pod group itself). ``held_by`` names a narrower key that already implies this
    one. A preference with ``wait_seconds`` is applied as required until it is ``relaxed``. A preference that
    gave way (``freed``) is applied at ``applied_key``, or not at all (None, and no label). ``domain`` is the
    one that node labels keep the set in, in place of a constraint.
    """

    path: SetPath
    key: str
    label: str
    requirement: Literal["required", "preferred"]
    tasks: int
    subgroup: str
    held_by: str | None
    wait_seconds: float | None = None
    relaxed: bool = False
    freed: bool = False
    applied_key: str | None = None
    domain: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        patience = {"waitSeconds": self.wait_seconds, "relaxed": self.relaxed}
        freedom = {"freed": True, "applied_key": self.applied_key}
        return {
            "set": [{"key": key, "group": group} for key, group in self.path],
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRequest:
    """A pool, as far as its scheduler needs objects for it. Quotas count GPUs; -1 is unlimited.

    With an ``external_topology`` the pool has no topology objects of ours. For a scheduler that
    ``OwnsQueues``: ``local_queue`` is the queue of somebody else's that the pool joins, empty for none;
    ``node_selector`` are the labels of its nodes; ``resources`` are those that its pod templates request.
    """

    namespace: str
    pool: str
    installation: UUID
    levels: Levels
    gpu_guarantee: float = -1
    gpu_maximum: float = -1
    gpu_weight: float = 1
    external_topology: str = ""
    queues: QueueSettings = field(default_factory=QueueSettings)
    local_queue: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    resources: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class BindFailure:
    """A binder failed on a node that the scheduler had chosen; ``since`` as Kubernetes writes times."""

    message: str
    since: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The observations of a gang that waits. ``placed``: all its pods have nodes.

    ``pod_groups`` are those that exist, as manifests with status; ``expected`` are the names of those that
    should. ``pods`` counts the pods that exist, ``pods_expected`` those that should. ``events`` are about the
    pod groups, ``pod_messages`` are the distinct messages of pods' ``PodScheduled`` conditions,
    ``bind_failures`` are on pods without a node, which keep them whatever happens afterwards. ``sets`` comes
    from rendering. ``domains`` names each domain of the pool for people, by its joined label values;
    None if no node is known. ``queue`` is the one that the gang joined, for a scheduler that ``JoinsQueues``;
    ``position`` is the gang's among this service's gangs that wait there.
    """

    placed: bool
    expected: tuple[str, ...]
    pod_groups: tuple[Mapping[str, Any], ...]
    pods: int
    pods_expected: int
    levels: Levels
    sets: Mapping[str, str]
    events: tuple[Mapping[str, Any], ...] = ()
    pod_messages: tuple[str, ...] = ()
    bind_failures: tuple[BindFailure, ...] = ()
    domains: Mapping[str, str] | None = None
    queue: JoinedQueue | None = None
    position: QueuePosition | None = None


UNRECOGNISED = "Unrecognised"
"""The code of a scheduler's text that no pattern knows; it is passed on as the scheduler wrote it."""


@dataclass(frozen=True, slots=True)
class WaitingReason:
    """Why a gang waits, in a sentence; ``raw`` is the scheduler's own text, ``facts`` the values in it."""

    code: str
    message: str
    raw: str = ""
    facts: tuple[tuple[str, str], ...] = ()


class SchedulerBackend(Protocol):
    """One scheduler. Stateless; registered under ``name``."""

    @property
    def name(self) -> str: ...

    @property
    def oldest(self) -> SchedulerVersion:
        """The oldest version supported; it is assumed while a cluster does not answer."""

    @property
    def needs(self) -> Mapping[Capability, SchedulerVersion]:
        """The version that each capability needs; a capability that is missing here is never held."""

    @property
    def scheduler_name(self) -> str:
        """``schedulerName`` of pods where the backend's configuration gives none."""

    @property
    def pod_group(self) -> ResourceKind | None:
        """The kind of its pod groups, to watch and sweep; None if it has none."""

    @property
    def read_back(self) -> ReadBack:
        """What the observer keeps of its pod groups."""

    @property
    def pool_kinds(self) -> tuple[ResourceKind, ...]:
        """The kinds of ``pool_objects``; the sync deletes our objects of these kinds that no pool needs."""

    @property
    def features(self) -> tuple[Feature, ...]:
        """What a cluster must serve so that it keeps every rendered field, for the conformance card.

        A built-in kind stands alone, without fields: no definition holds its schema.
        """

    def version_of(self, *, kubernetes: str, pod_group_schema: Mapping[str, Any] | None) -> SchedulerVersion:
        """Infer the scheduler's version from what its cluster serves.

        ``kubernetes`` is the API server's version, ``pod_group_schema`` the schema (or
        CustomResourceDefinition, or OpenAPI v3 document) of ``pod_group``, None where it is not served.
        Raises UnsupportedCapability, naming what is needed.
        """

    def capabilities(self, version: SchedulerVersion | None) -> Capabilities:
        """What this version can hold; None stands for the oldest supported."""

    def check(
        self,
        gang: Gang,
        levels: Levels,
        *,
        capabilities: Capabilities,
        domains: Collection[Domain] | None = None,
        unsupported_preferred: UnsupportedPreferred = "refuse",
        queue_timeout: float | None = None,
    ) -> Checked:
        """Find all faults of a gang at once. ``queue_timeout`` is in seconds, None for none."""

    def render(self, request: GangRequest) -> RenderedGang:
        """Turn a gang into objects. Raises InvalidSpec or UnsupportedCapability; never weakens one."""

    @property
    def edits_pod_groups(self) -> bool:
        """Whether pod groups can be edited while their pods run.

        Where they cannot, a task that is tried again after a peer has finished joins a pod group of the
        next generation.
        """

    @property
    def spares_normal(self) -> bool:
        """Whether work of NORMAL priority is safe from work of HIGH, so that only LOW is ever evicted."""

    def resized(
        self, gang: RenderedGang, *, living: Collection[str], waiting: Collection[str], rest: bool
    ) -> Manifest:
        """The changes to a pod group's spec so that minimums count the ``living`` tasks; empty for none.

        ``waiting`` are living tasks without a place while others have one. ``rest`` leaves out, for a moment,
        sets of which no task has a place.
        """

    def relaxed(self, before: RenderedGang, after: RenderedGang) -> Manifest | None:
        """The merge patch that changes the constraints of a pending pod group, at another stage for example.

        Empty for no change; None if the scheduler's pending pod groups cannot be edited.
        """

    def pool_objects(self, request: PoolRequest) -> tuple[Manifest, ...]:
        """The cluster-scoped objects a pool needs, in order of creation."""

    def above(self, pool_object: Mapping[str, Any]) -> str:
        """The parent of a pool object, of the same kind (a queue's parent queue); empty for none.

        A parent stays as long as its child, and is deleted after it.
        """

    def waiting_reasons(self, waiting: Waiting) -> tuple[WaitingReason, ...]:
        """Why a gang waits, the most useful reason first; empty if nothing is known."""


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


@runtime_checkable
class EvictionReader(Protocol):
    """A scheduler backend that can read the cause of an eviction from its scheduler's events."""

    def read_eviction(self, message: str) -> Eviction:
        """Read the message of an event that ``read_back.evicting`` names."""


@runtime_checkable
class PodKeyReader(Protocol):
    """A scheduler that reads labels or annotations of pods, which users may therefore not set."""

    def reads_label(self, key: str) -> bool: ...

    def reads_annotation(self, key: str) -> bool: ...


@runtime_checkable
class CountsLargest(Protocol):
    """A scheduler that may skip a domain as too small although a set's smaller tasks would fit.

    With ``counts_largest`` it looks for room for as many of the set's largest task as the set has tasks. With
    ``pins_sets`` such a set may be kept in a domain by node labels instead (``scheduling.pins``).
    """

    counts_largest: bool
    pins_sets: bool


@runtime_checkable
class FitsBest(Protocol):
    """A scheduler that assigns nodes to lists of equal pods by the best fit (``scheduling.fit.best_fit``)."""

    fits_best: bool


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


@runtime_checkable
class AdmitsBeforePods(Protocol):
    """A scheduler that decides from the pod group alone, and names the node of each pod before it exists.

    The pod group asks for the room of the whole gang and keeps it until it is deleted, so a task that is
    tried again joins the same one.
    """

    def admission(self, pod_group: Mapping[str, Any]) -> Admission:
        """Read its answer from the status of a pod group."""

    def holds_room(self, pod_group: Mapping[str, Any]) -> bool:
        """Whether its queue counts the gang's room as used: before admission, and until it is given back."""

    def switched_off(self, pod_group: Manifest) -> Manifest:
        """The pod group as one that gets no room before somebody switches it on."""

    def nodes(
        self, request: GangRequest, pod_group: Mapping[str, Any], *, domains: Mapping[str, Domain]
    ) -> Mapping[str, str]:
        """The node of each task, by its label kubernetes.io/hostname, in a gang that is admitted.

        ``domains`` are the places of the pool's nodes; the tasks of ``request.nodes`` keep theirs. Raises
        InvalidSpec for an answer that does not hold the gang.
        """


@runtime_checkable
class HidesUnlabelled(Protocol):
    """A scheduler that reads one object of levels for all gangs, and sees no node that lacks one's label.

    With ``hides_unlabelled`` a constraint of a broad level does not reach nodes without narrower labels.
    """

    hides_unlabelled: bool


@runtime_checkable
class OrdersSets(Protocol):
    """A scheduler that places sets one after the other in an order that rendering chooses.

    With ``orders_sets`` the order may also be changed while the gang waits. ``bind_request`` is the kind of
    objects by which the scheduler tells its binder a pod's node; ``spec.podName`` names the pod.
    """

    orders_sets: bool
    bind_request: ResourceKind

    def last_report(self, pod_groups: Sequence[Mapping[str, Any]]) -> str:
        """When it last reported on these pod groups, as Kubernetes writes times; empty if never."""


@runtime_checkable
class TopologyReader(Protocol):
    """A scheduler that reads levels from an object in the cluster."""

    @property
    def topology(self) -> ResourceKind:
        """The kind of that object, to watch and to compare (``scheduling.drift``)."""

    def levels_in(self, manifest: Mapping[str, Any]) -> tuple[str, ...]:
        """The node labels that an object in the cluster lists, broadest first."""


@runtime_checkable
class TopologyOwner(TopologyReader, Protocol):
    """A scheduler whose topology objects the service makes, or finds by the name that a pool gives."""

    def topology_of(self, installation: UUID, levels: Sequence[Level]) -> Manifest:
        """The object of exactly these levels, broadest first."""


@runtime_checkable
class JoinsQueues(TopologyReader, Protocol):
    """A scheduler whose gangs join a queue of somebody else's, which leads to nodes and topology objects."""

    @property
    def joined_kinds(self) -> tuple[ResourceKind, ...]:
        """The kinds of the queue and of what it leads to, without topology objects, to watch."""

    def read_joined(
        self, resource: ResourceKind, obj: Mapping[str, Any], *, quantity: Callable[[str], Decimal]
    ) -> Mapping[str, Any]:
        """An object of such a kind as JSON; conditions of pools follow from its ``settings`` alone."""

    def joined_queue(
        self, namespace: str, name: str, *, selector: Mapping[str, str], objects: Readings
    ) -> JoinedQueue:
        """The queue of this name, for gangs that select nodes by these labels."""

    def queued(self, pod_group: Mapping[str, Any], *, created: str) -> QueuedGang | None:
        """A pod group in the order of its queue, None if it does not wait there; ``created`` is RFC 3339."""

    def levels_needed(self, levels: Levels) -> Levels:
        """The levels that a topology object must list for a pool of these."""


@runtime_checkable
class OwnsQueues(JoinsQueues, Protocol):
    """A scheduler that joins queues, which the service makes itself where ``QueueSettings.own`` says so.

    Then they and what they lead to are ``pool_objects``. A name stands for everything in its object that must
    not change under running work; what differs has another name.
    """

    @property
    def owned_kinds(self) -> tuple[ResourceKind, ...]:
        """The kinds of such objects, each after those that it names."""

    @property
    def owned_capabilities(self) -> frozenset[Capability]:
        """What the scheduler holds in such queues alone."""

    def own_queue(self, request: PoolRequest) -> str:
        """The name of the queue that the pool's gangs join; empty where it is somebody else's."""

    def leads_to(self, pool_object: Mapping[str, Any]) -> tuple[tuple[ResourceKind, str], ...]:
        """The objects that one of ``owned_kinds`` names."""

    @property
    def whole_fields(self) -> tuple[str, ...]:
        """Fields of their spec to which nothing may be added: maps that are written as a whole."""

    def removable_in(self, pool_object: Mapping[str, Any]) -> tuple[str, ...]:
        """Fields of its spec that nobody else may set: what stands there goes."""


@runtime_checkable
class SharesQueues(Protocol):
    """A scheduler with queues and shards, which settings of a backend may name (``QueueSettings``)."""

    @property
    def shard_label(self) -> str:
        """The node label by which the scheduler divides a cluster into shards, unless it is set otherwise."""


@runtime_checkable
class AdmitsByQueue(Protocol):
    """A scheduler whose queues have bounds, within which alone a gang starts."""

    @property
    def queue(self) -> ResourceKind:
        """The kind of its queues, to watch."""

    def read_queue(self, obj: Mapping[str, Any], *, quantity: Callable[[str], Decimal]) -> QueueState:
        """A queue of the cluster with its status; ``quantity`` reads Kubernetes' notation."""

    @property
    def removable(self) -> tuple[str, ...]:
        """Fields of a queue's spec that are ours also where they are not set: what stands there goes."""

    def queues_of(self, request: PoolRequest) -> tuple[QueueState, ...]:
        """A pool's queue and those of ours above it, as configured; nothing is known of their usage."""

    def is_preemptible(self, priority: str) -> bool:
        """Whether work of higher priority may preempt work of this one."""

    def shortages(
        self, queues: Sequence[QueueState], requested: QueueAmounts, *, priority: str
    ) -> tuple[QueueShortage, ...]:
        """The bounds in a chain of queues that a gang exceeds, in the scheduler's order."""


@runtime_checkable
class Consolidates(Protocol):
    """A scheduler that may move running work to make room for a gang.

    With ``consolidates`` it moves work that may be preempted, of any queue, for a gang that may be, too.
    """

    consolidates: bool


@runtime_checkable
class ShowsChildren(Protocol):
    """A scheduler whose pool objects say in their status which objects stand below them.

    Its API refuses the deletion of an object while that is so.
    """

    def children_of(self, pool_object: Mapping[str, Any]) -> tuple[str, ...]:
        """The names of the objects below this one, as its status has them."""


@runtime_checkable
class InstallationChecker(Protocol):
    """A scheduler backend that can judge how its scheduler is installed."""

    @property
    def installation_queries(self) -> tuple[ObjectQuery, ...]:
        """What to read for it."""

    def check_installation(
        self, observed: Observed, *, kubernetes: SchedulerVersion, scheduler_name: str, shard: str
    ) -> tuple[CheckResult, ...]:
        """Check what was read. ``kubernetes`` is the API server's version, ``shard`` that of the backend."""
