"""What a scheduler backend is: code that turns our intent into one scheduler's objects, and back.

A backend is pure: it takes values and returns manifests, faults and words; the cluster edge creates,
patches and reads. Manifests are whole and in their final form, so a dry run shows exactly what a worker
will create. A manifest never depends on the clock or on chance: rendered twice it is the same, which is
how a retried pod gets the parts of the pod it replaces.

Others are added by an entry point (``registry``) without touching the core. A backend says what it can
hold as data (``capabilities``); ``checks.check_gang`` does the rest.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol, runtime_checkable
from uuid import UUID

from scheduling.capabilities import Capabilities, Capability, SchedulerVersion
from scheduling.checks import SplitGangs, UnsupportedPreferred
from scheduling.errors import Fault, Notice
from scheduling.levels import Domain, Level, Levels
from scheduling.requirements import Gang, SetPath

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


class Purpose(StrEnum):
    """What cannot be had without a feature: the scheduler, topology keys, NVLink; or nothing that is used."""

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
    """What is followed of a scheduler's pod groups, because the backend reads it.

    ``status`` names fields of their status, ``annotations`` those that the scheduler puts on them. ``events``
    are the reasons of events that change what is known of a gang; of these ``waiting`` say why it waits, and
    ``evicting`` why its pods were deleted. ``stale`` is the annotation that says since when a gang is below
    its minimum, where the scheduler evicts it for that. ``event_annotation`` is the annotation of an event
    that says for which action a pod was evicted; it is stored behind the event's message, as ``(action: …)``.
    """

    status: tuple[str, ...] = ("conditions",)
    annotations: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    evicting: tuple[str, ...] = ()
    stale: str = ""
    event_annotation: str = ""


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check found: faults refuse, notices only tell."""

    faults: tuple[Fault, ...]
    notices: tuple[Notice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GangRequest:
    """A gang to render, with everything frozen at its submission.

    ``queue`` and ``priority_class`` are names in the cluster, empty for none. ``attempt`` counts from 0
    the times the whole gang was made. ``labels`` and ``annotations`` go on the pod groups, below ours.
    ``stage`` counts the preferences relaxed by now (``scheduling.stages``). ``external_topology`` is the name
    of an external topology object to use; empty: our own. ``version`` is the scheduler's version at
    which the gang was checked; None where it was not known, which counts as the oldest supported.
    """

    group: UUID
    gang: Gang
    levels: Levels
    namespace: str
    queue: str
    priority_class: str
    scheduler_name: str
    installation: UUID
    attempt: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    stage: int = 0
    unsupported_preferred: UnsupportedPreferred = "refuse"
    external_topology: str = ""
    version: SchedulerVersion | None = None


@dataclass(frozen=True, slots=True)
class PodParts:
    """What a pod needs so that the scheduler takes it as part of its gang; shared by the pods of a leaf.

    ``spec`` holds further fields of the pod's spec, to be merged at the top.
    """

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    scheduler_name: str
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AppliedConstraint:
    """One requirement as the scheduler holds it, for the API.

    ``path`` names the set (empty: the whole group), ``tasks`` counts its tasks, ``subgroup`` is its name in
    the pod group (empty: the pod group itself). ``held_by`` is set when a narrower key already implies it.
    A preference with ``wait_seconds`` is held as required until it is ``relaxed``.
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

    def as_json(self) -> dict[str, Any]:
        patience = {"waitSeconds": self.wait_seconds, "relaxed": self.relaxed}
        return {
            "set": [{"key": key, "group": group} for key, group in self.path],
            "key": self.key,
            "label": self.label,
            "requirementType": self.requirement,
            "tasks": self.tasks,
            "subgroup": self.subgroup,
            "held_by": self.held_by,
            **({} if self.wait_seconds is None else patience),
        }


@dataclass(frozen=True, slots=True)
class RenderedGang:
    """A gang in one scheduler's objects.

    ``topologies`` are the Topology objects its constraints name; they must exist before the pod groups.
    ``sets`` says in the user's words what each subgroup (or pod group) stands for, for reading back.
    ``members`` names the pod group of each task where the gang became several of them.
    """

    pod_groups: tuple[Manifest, ...]
    pods: Mapping[str, PodParts]
    topologies: tuple[Manifest, ...]
    constraints: tuple[AppliedConstraint, ...]
    sets: Mapping[str, str]
    members: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRequest:
    """A pool, as far as its scheduler needs objects for it. Quotas count GPUs; -1 is unlimited.

    With an ``external_topology`` the pool has no topology objects of ours.
    """

    namespace: str
    pool: str
    installation: UUID
    levels: Levels
    gpu_guarantee: float = -1
    gpu_maximum: float = -1
    gpu_weight: float = 1
    external_topology: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What was observed of a gang that waits. ``placed`` says that all its pods have nodes.

    ``pod_groups`` are those found, as manifests with status; ``expected`` the names of those it should
    have, ``pods`` and ``pods_expected`` count pods that exist and should. ``events`` are on the pod groups,
    ``pod_messages`` the distinct messages of pods' ``PodScheduled`` conditions. ``sets`` is from rendering.
    ``domains`` says in words what the joined label values of each domain of the pool stand for; None where
    no node is known.
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
    domains: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class WaitingReason:
    """Why a gang waits, in plain words; ``raw`` is the scheduler's own text, ``facts`` the values in it."""

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
        """The oldest version supported; stands in while a cluster does not answer."""

    @property
    def needs(self) -> Mapping[Capability, SchedulerVersion]:
        """The version each capability needs; what is not here is never held."""

    @property
    def scheduler_name(self) -> str:
        """``schedulerName`` of pods where the backend's configuration gives none."""

    @property
    def pod_group(self) -> ResourceKind | None:
        """The kind of its pod groups, to watch and sweep; None if it has none."""

    @property
    def read_back(self) -> ReadBack:
        """What to follow of its pod groups."""

    @property
    def pool_kinds(self) -> tuple[ResourceKind, ...]:
        """The kinds of ``pool_objects``; objects of ours of these kinds that no pool needs are deleted."""

    @property
    def features(self) -> tuple[Feature, ...]:
        """What a cluster must serve so that what is rendered is kept, for the conformance card.

        Kinds alone for built-in ones, whose schemas no definition holds.
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
        split_gangs: SplitGangs,
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
        next attempt.
        """

    @property
    def spares_normal(self) -> bool:
        """Whether work of NORMAL priority is safe from work of HIGH, so that only LOW is ever evicted."""

    def resized(
        self, gang: RenderedGang, *, living: Collection[str], waiting: Collection[str], rest: bool
    ) -> Manifest:
        """What to change in the spec of a gang's pod group so that it holds the tasks still ``living``.

        ``waiting`` are those of them whose pods hold no place while others do. ``rest`` leaves out, for a
        moment, sets of which no task holds a place. Empty for nothing.
        """

    def relaxed(self, before: RenderedGang, after: RenderedGang) -> Manifest | None:
        """The body of the merge patch that brings a pending pod group from one stage to a later one.

        Empty if nothing changes; None where pending pod groups cannot be edited.
        """

    def pool_objects(self, request: PoolRequest) -> tuple[Manifest, ...]:
        """The cluster-scoped objects a pool needs, in order of creation."""

    def above(self, pool_object: Mapping[str, Any]) -> str:
        """The pool object of the same kind that this one stands below (a queue's parent); empty for none.

        It stays as long as this one, and goes after it.
        """

    def waiting_reasons(self, waiting: Waiting) -> tuple[WaitingReason, ...]:
        """Why a gang waits, most telling first; empty when nothing is known."""


class EvictionCause(StrEnum):
    """What a scheduler evicted a pod for."""

    PREEMPTION = "preemption"
    RECLAIM = "reclaim"
    CONSOLIDATION = "consolidation"
    STALE_GANG = "stale_gang"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Eviction:
    """How a scheduler evicted a pod; ``message`` says it in a sentence with the scheduler's own words."""

    cause: EvictionCause
    message: str


@runtime_checkable
class EvictionReader(Protocol):
    """A scheduler whose events on evicting say for what a pod had to go."""

    def read_eviction(self, message: str) -> Eviction:
        """Read the message of an event that ``read_back.evicting`` names."""


@runtime_checkable
class PodKeyReader(Protocol):
    """A scheduler that treats pods by labels or annotations, which users may therefore not set."""

    def reads_label(self, key: str) -> bool: ...

    def reads_annotation(self, key: str) -> bool: ...


@runtime_checkable
class CountsLargest(Protocol):
    """A scheduler that may take a domain for too small although a set's smaller tasks would fit.

    With ``counts_largest`` it looks for room for as many of the set's largest task as the set has tasks.
    """

    counts_largest: bool


@runtime_checkable
class TopologyOwner(Protocol):
    """What a scheduler backend has besides, if its cluster keeps levels in an object of their own."""

    @property
    def topology(self) -> ResourceKind:
        """The kind of that object, to watch and to compare (``scheduling.drift``)."""

    def topology_of(self, installation: UUID, levels: Sequence[Level]) -> Manifest:
        """The object of exactly these levels, broadest first."""

    def levels_in(self, manifest: Mapping[str, Any]) -> tuple[str, ...]:
        """The node labels an object found in the cluster lists, broadest first."""
