"""A scheduler backend: the code that turns task groups into one scheduler's objects, as a record of facets.

A facet is what a scheduler can be asked for: to render gangs, to edit their pod groups, and so on. One that a
scheduler does not have is None. Differences without code are data: its kinds, and its traits.

A backend is pure: it takes values and returns manifests, faults and sentences; ``cluster`` does the I/O.
Manifests are complete, so a dry run shows exactly what a worker will create. A manifest never depends on the
clock or on chance: rendering twice gives the same objects, so a retried pod gets the fields of the pod it
replaces.

Packages add backends by an entry point (``registry``). A backend declares what it can hold as data
(``capabilities``); ``scheduling.gang.checks.check_gang`` does the rest. The shape follows Grove's
``operator/internal/scheduler/types.go``. Rejected: one interface with an optional one for each difference,
because callers then ask for the type of a scheduler.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Protocol
from uuid import UUID

from scheduling.backends.base import (
    Admission,
    Checked,
    Eviction,
    Feature,
    GangRequest,
    Manifest,
    Meaning,
    ObjectQuery,
    PoolRequest,
    ReadBack,
    RenderedGang,
    ResourceKind,
    Waiting,
    WaitingReason,
)
from scheduling.capabilities import Capabilities, Capability, SchedulerVersion
from scheduling.fit.snapshot import Evictable
from scheduling.foreign.gang import ForeignGang, GangKept, PodKept
from scheduling.gang.checks import PreferenceWord
from scheduling.gang.gang_form import GangForm
from scheduling.preflight import CheckResult, Observed
from scheduling.queues.joined_queues import JoinedQueue, QueuedGang, Readings
from scheduling.queues.queue_state import QueueAmounts, QueueShortage, QueueState
from scheduling.topology.levels import DomainPath, Level, Levels
from scheduling.topology.requirements import Gang


class Rendering(Protocol):
    """The capabilities of a scheduler, and the objects of gangs and pools."""

    @property
    def name(self) -> str:
        """Its name in a backend's configuration and as an entry point."""

    @property
    def oldest(self) -> SchedulerVersion:
        """The oldest version supported; it is assumed while a cluster does not answer."""

    @property
    def needs(self) -> Mapping[Capability, SchedulerVersion]:
        """The version that each capability needs; a capability that is missing here is never held."""

    def version_of(self, *, kubernetes: str, pod_group_schema: Mapping[str, Any] | None) -> SchedulerVersion:
        """Infer the scheduler's version from what its cluster serves.

        ``kubernetes`` is the API server's version, ``pod_group_schema`` the schema (or
        CustomResourceDefinition, or OpenAPI v3 document) of ``pod_group``, None where it is not served.
        Raises UnsupportedCapability, naming what is needed.
        """

    def capabilities(self, version: SchedulerVersion | None) -> Capabilities:
        """The capabilities of this version; None stands for the oldest supported."""

    def check(
        self,
        gang: Gang,
        levels: Levels,
        *,
        capabilities: Capabilities,
        domains: Collection[DomainPath] | None = None,
        unsupported_preferred: PreferenceWord = "refuse",
        queue_timeout: float | None = None,
    ) -> Checked:
        """Find all faults of a gang at once. ``queue_timeout`` is in seconds, None for none."""

    def render(self, request: GangRequest) -> RenderedGang:
        """Turn a gang into objects. Raises InvalidSpec or UnsupportedCapability; never weakens one."""

    @property
    def pool_kinds(self) -> tuple[ResourceKind, ...]:
        """The kinds of ``pool_objects``; the sync deletes our objects of these kinds that no pool needs."""

    def pool_objects(self, request: PoolRequest) -> tuple[Manifest, ...]:
        """The cluster-scoped objects a pool needs, in order of creation."""

    def above(self, pool_object: Mapping[str, Any]) -> str:
        """The parent of a pool object, of the same kind (a queue's parent queue); empty for none.

        A parent stays as long as its child, and is deleted after it.
        """


class PodGroupEdits(Protocol):
    """Edits of pod groups while their pods run or wait.

    Without it, a task that is tried again after a peer has finished joins a pod group of the next generation.
    """

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


class BoundedQueues(Protocol):
    """Queues of the service's own with bounds, within which alone a gang starts."""

    @property
    def queue(self) -> ResourceKind:
        """The kind of its queues, to watch."""

    def read_queue(self, obj: Mapping[str, Any], *, quantity: Callable[[str], Decimal]) -> QueueState:
        """A queue of the cluster with its status; ``quantity`` reads Kubernetes' notation."""

    @property
    def removable(self) -> tuple[str, ...]:
        """Fields of a queue's spec that are ours also where they are not set: any value there is removed."""

    def queues_of(self, request: PoolRequest) -> tuple[QueueState, ...]:
        """A pool's queue and those of ours above it, as configured; nothing is known of their usage."""

    def is_preemptible(self, priority: str) -> bool:
        """Whether work of higher priority may preempt work of this one."""

    def shortages(
        self, queues: Sequence[QueueState], requested: QueueAmounts, *, priority: str
    ) -> tuple[QueueShortage, ...]:
        """The bounds in a chain of queues that a gang exceeds, in the scheduler's order."""

    def children_of(self, pool_object: Mapping[str, Any]) -> tuple[str, ...]:
        """The names of the objects below a pool object, as its status has them.

        The scheduler's API refuses to delete an object that has any.
        """


class JoinedQueues(Protocol):
    """Queues of somebody else's that gangs join, and that lead to nodes and topology objects.

    The service makes them itself where ``QueueSettings.own`` says so, if it can: then they and what they lead
    to are ``pool_objects``, of ``owned_kinds``. A name stands for everything in its object that must not
    change under running work; an object that differs has another name.
    """

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

    def counts_by_flavor(self, version: SchedulerVersion | None) -> bool:
        """Whether use counts in each flavor by itself, so that nodes of two are handed out twice."""

    @property
    def owned_kinds(self) -> tuple[ResourceKind, ...]:
        """The kinds of the service's own such objects, each after those that it names; empty for none."""

    @property
    def owned_capabilities(self) -> frozenset[Capability]:
        """The capabilities that the scheduler has in queues of the service's own alone."""

    def own_queue(self, request: PoolRequest) -> str:
        """The name of the queue that the pool's gangs join; empty where it is somebody else's."""

    def leads_to(self, pool_object: Mapping[str, Any]) -> tuple[tuple[ResourceKind, str], ...]:
        """The objects that one of ``owned_kinds`` names."""

    @property
    def whole_fields(self) -> tuple[str, ...]:
        """Fields of their spec to which nothing may be added: maps that are written as a whole."""

    def removable_in(self, pool_object: Mapping[str, Any]) -> tuple[str, ...]:
        """Fields of its spec that nobody else may set: a value that stands there is removed."""


class AdmissionBeforePods(Protocol):
    """A decision from the pod group alone, which names the node of each pod before it exists.

    The pod group asks for the room of the whole gang and keeps it until it is deleted, so a task that is
    tried again joins the same one.
    """

    own_conditions: frozenset[str]
    """The types of the conditions that ``ready`` writes; the service concludes nothing else from them."""

    def pod_group_name(self, group: UUID, *, generation: int, form: GangForm) -> str:
        """The name of the pod group that is rendered for a generation of the gang in this form."""

    def admission(self, pod_group: Mapping[str, Any]) -> Admission:
        """Read the answer from the status of a pod group."""

    def holds_room(self, pod_group: Mapping[str, Any]) -> bool:
        """Whether its queue counts the gang's room as used: before admission, and until it is given back."""

    def nodes_held(self, pod_group: Mapping[str, Any]) -> frozenset[str]:
        """The nodes that it names for the gang's pods, by their label kubernetes.io/hostname."""

    def switched_off(self, pod_group: Manifest) -> Manifest:
        """The pod group as one that gets no room before somebody switches it on."""

    def wake(
        self, pod_group: Mapping[str, Any], *, version: SchedulerVersion | None, now: datetime
    ) -> Manifest | None:
        """The merge patch by which the scheduler looks again at a pod group for which it found no room.

        None where it does so by itself, where it found none just now, and after some such patches.
        """

    def is_unanswered(self, pod_group: Mapping[str, Any]) -> bool:
        """Whether the scheduler has not looked at it since it was changed last, as ``wake`` does."""

    def ready(self, pod_group: Mapping[str, Any], *, now: datetime) -> Manifest | None:
        """The merge patch of its status that says that all its pods run; None where it says so.

        A scheduler may take the room back of a gang that nobody calls ready.
        """

    def nodes(
        self, request: GangRequest, pod_group: Mapping[str, Any], *, domains: Mapping[str, DomainPath]
    ) -> Mapping[str, str]:
        """The node of each task, by its label kubernetes.io/hostname, in a gang that is admitted.

        ``domains`` are the places of the pool's nodes; the tasks of ``request.nodes`` keep theirs. Raises
        InvalidSpec for an answer that does not hold the gang.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyObjects:
    """Objects in the cluster from which a scheduler reads levels."""

    kind: ResourceKind  # to watch and to compare (``scheduling.topology.drift``)
    levels_in: Callable[[Mapping[str, Any]], tuple[str, ...]]  # the node labels it lists, broadest first
    of_levels: Callable[[UUID, Sequence[Level]], Manifest] | None = None
    """The object of exactly these levels, broadest first; None: the service neither makes nor names any."""


class SchedulerTexts(Protocol):
    """The reports of a scheduler, and their meanings."""

    @property
    def meanings(self) -> Mapping[str, Meaning]:
        """The meanings of its reasons' codes; one that is missing here is of kind OTHER."""

    def waiting_reasons(self, waiting: Waiting) -> tuple[WaitingReason, ...]:
        """Why a gang waits, the most useful reason first; empty if nothing is known."""

    def last_report(self, pod_groups: Sequence[Mapping[str, Any]]) -> str:
        """When it last reported on these pod groups, as Kubernetes writes times; empty if never."""

    def read_eviction(self, message: str) -> Eviction:
        """Read the message of an event that ``read_back.evicting`` names."""


class ForeignGangs(Protocol):
    """Gangs that others submitted to the same scheduler, read from their objects."""

    @property
    def kinds(self) -> tuple[ResourceKind, ...]:
        """The kind of a gang's object, then those of what may stand above it."""

    @property
    def made_of_pods(self) -> bool:
        """Whether a gang is the pods that name its object; else its object has templates of them."""

    def gang_of(self, pod: Mapping[str, Any]) -> tuple[str, str]:
        """The name of a pod's gang in its namespace, and of its part in it; empty for none.

        ``pod`` is the whole object as the cluster serves it.
        """

    def evictable(self, pod: Mapping[str, Any]) -> Evictable | None:
        """By what the scheduler may preempt a running pod; None where it does not, or that is not known."""

    def keep(
        self,
        resource: ResourceKind,
        obj: Mapping[str, Any],
        *,
        pod_of: Callable[[Mapping[str, Any]], PodKept],
    ) -> Mapping[str, Any] | None:
        """What is kept of an object, as JSON; None for a gang that has ended or does not wait.

        ``pod_of`` reads the template of a pod (``metadata`` and ``spec``).
        """

    def above(self, remainder: Mapping[str, Any]) -> tuple[ResourceKind, str] | None:
        """What stands above an object of which this is kept, in the same namespace; None for nothing."""

    def read(
        self,
        gang: GangKept,
        *,
        topologies: Mapping[str, tuple[str, ...]],
        queues: Readings,
        version: SchedulerVersion | None,
        siblings: Sequence[GangKept] = (),
    ) -> ForeignGang:
        """Read a gang. Never raises for what others wrote.

        ``siblings`` are the others of its namespace below the same root (``root_of``). ``topologies`` are
        the labels of each topology object of the cluster by its name, broadest first; ``queues`` what
        ``read_joined`` or ``read_queue`` made of queues, where the scheduler has such.
        """


class InstallationCheck(Protocol):
    """A judgement of how the scheduler is installed."""

    @property
    def installation_queries(self) -> tuple[ObjectQuery, ...]:
        """What to read for it."""

    def check_installation(
        self, observed: Observed, *, kubernetes: SchedulerVersion, scheduler_name: str, shard: str
    ) -> tuple[CheckResult, ...]:
        """Check what was read. ``kubernetes`` is the API server's version, ``shard`` that of the backend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerTraits:
    """How a scheduler places work, where it differs from others."""

    spares_normal: bool = False
    """Work of NORMAL priority is safe from work of HIGH, so that only LOW is ever evicted."""
    counts_largest: bool = False
    """It may skip a domain as too small although a set's smaller tasks would fit: it looks for room for as
    many of the set's largest task as the set has tasks."""
    pins_sets: bool = False
    """Such a set may be kept in a domain by node labels instead (``scheduling.gang.pins``)."""
    orders_sets: bool = False
    """It places sets one after the other in an order that rendering chooses, also while the gang waits."""
    fits_best: bool = False
    """It assigns nodes to lists of equal pods by the best fit (``scheduling.fit.best_fit``)."""
    prefers_by_affinity: bool = False
    """A preference is no set but node affinity of pods, to a domain that the service's search chooses."""
    consolidates: bool = False
    """It may move running work that may be preempted, of any queue, for a gang that may be, too."""
    gives_devices: bool = False
    """Pods that ask for a resource by number get devices of the DeviceClass that names it, on nodes that
    offer none by a device plugin: Kubernetes' scheduler with the gate DRAExtendedResource, by default since
    1.36. Where it is off the API server keeps no such name."""
    shuns_drivers: str = ""
    """Of a node with devices of a DRA driver that has this word in its name it gives no GPUs by number, also
    where a device plugin offers them (KAI 0.13 to 0.16); empty: there is no such driver."""
    hides_unlabelled: bool = False
    """It reads one object of levels for all gangs, and sees no node that lacks one's label: a constraint of a
    broad level does not reach nodes without narrower labels."""


NO_TRAITS = SchedulerTraits()


def gang_resource(gangs: ForeignGangs) -> str:
    """The resource of a gang's own object, by which it is kept and all of its kind are known or not."""
    return gangs.kinds[0].crd


def _reads_no_key(key: str) -> bool:
    del key
    return False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SchedulerBackend:
    """One scheduler. Stateless; equal to itself alone."""

    product: str = ""
    """Its name as its makers write it, for people; empty: its name here."""
    scheduler_name: str
    """``schedulerName`` of pods where the backend's configuration gives none."""
    pod_group: ResourceKind | None
    """The kind of its pod groups, to watch and sweep; None if it has none."""
    hidden_gate: str = ""
    """Its feature gate that some capabilities need and no API shows; a trial or a person says it is on."""
    parents: tuple[ResourceKind, ...] = ()
    """The kinds of what stands above its pod groups, in order of creation; to sweep."""
    read_back: ReadBack
    """The parts of its pod groups that the observer keeps."""
    features: tuple[Feature, ...] = ()
    """The features that a cluster must serve so that it keeps every rendered field, for the conformance card.

    A built-in kind stands alone, without fields: no definition holds its schema.
    """
    bind_request: ResourceKind | None = None
    """The kind of objects by which it tells its binder a pod's node; ``spec.podName`` names the pod."""
    shard_label: str = ""
    """The node label by which it divides a cluster into shards, unless a backend's settings name another;
    empty: it has neither queues nor shards that settings may name (``QueueSettings``)."""
    reads_label: Callable[[str], bool] = _reads_no_key
    """Whether it reads the label of this key on pods, which users may therefore not set."""
    reads_annotation: Callable[[str], bool] = _reads_no_key
    loses_preemptor: Callable[[Mapping[str, Any]], bool] | None = None
    """Whether it says that it evicted others for this pod group, and may then never look at it again.

    None: it says no such thing.
    """
    traits: SchedulerTraits = NO_TRAITS

    rendering: Rendering
    edits: PodGroupEdits | None = None
    queues: BoundedQueues | None = None
    joined_queues: JoinedQueues | None = None
    admission: AdmissionBeforePods | None = None
    topologies: TopologyObjects | None = None
    texts: SchedulerTexts
    foreign: ForeignGangs | None = None
    installation: InstallationCheck | None = None

    @property
    def name(self) -> str:
        return self.rendering.name

    @property
    def edits_pod_groups(self) -> bool:
        """Whether its pod groups can be edited while their pods run; also if it has none."""
        return self.pod_group is None or self.edits is not None

    @property
    def owns_topologies(self) -> bool:
        """Whether the service makes its topology objects, or finds them by the name that a pool gives."""
        return self.topologies is not None and self.topologies.of_levels is not None
