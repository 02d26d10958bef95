"""What the checker compares: rows and objects as plain values, and how long each may differ.

Both sides change while they are read. The clusters are listed first (``ObservedCluster.listed_at`` is the
database's time before the first list) and the rows after them, in one snapshot. So an object without a row
that wants it is judged by rows newer than itself, and a row without its object only if the row describes a
time before ``listed_at``. A fact with a time of its own is judged by that time. All others are marked
``unsure`` and count only if a second reading finds the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any, Literal, Self
from uuid import UUID

from pools.values.freshness import Freshness

KindOfFinding = Literal[
    "lost", "leaked", "doubled", "half-made", "stuck", "inconsistent", "backwards", "unsafe"
]
KINDS: tuple[KindOfFinding, ...] = (
    "lost",
    "leaked",
    "doubled",
    "half-made",
    "stuck",
    "inconsistent",
    "backwards",
    "unsafe",
)
Repair = Literal["", "enqueue", "sweep", "sync"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TryRow:
    """One try of a task. ``processing_since`` and ``scheduling_since`` are those of its steps.

    ``first_retry`` is the try with which its group's attempt began.
    """

    task: UUID
    name: str
    retry_id: int
    latest: bool
    lead: bool
    status: str
    pod_name: str
    first_retry: int = 0
    processing_since: datetime | None = None
    scheduling_since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """The present attempt of a group that was tried before.

    ``status`` is how far it is; a status that users see never goes back. It was decided on at ``since`` and
    creates nothing before ``begins``. While ``clearing``, objects of the attempt before may be left;
    ``cleared_at`` is when none was.
    """

    number: int
    status: str
    since: datetime
    begins: datetime
    clearing: bool = False
    cleared_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """A task group. ``pod_group`` is its scheduler's kind as ``PodGroup.scheduling.run.ai``, or empty.

    ``tries`` are all of an unreleased group, and of a released one those that live (there should be none).
    ``upstream`` has the status and end of each group that it waits for; where it ``awaits`` a group, the
    end of that group makes it due. ``attempt`` is None in the first attempt.
    ``exec_since`` is from when its execution timeout counts, None while it does not.
    """

    uuid: UUID
    name: str
    workflow: str
    backend: str
    cluster: str
    namespace: str
    status: str
    pod_group: str = ""
    nvlink: bool = False
    queue: str = ""
    topologies: frozenset[tuple[str, ...]] = frozenset()
    touched: bool = False
    touched_at: datetime | None = None
    submitted: datetime
    processing_since: datetime | None = None
    scheduling_since: datetime | None = None
    exec_since: datetime | None = None
    created_at: datetime | None = None
    ended_at: datetime | None = None
    released_at: datetime | None = None
    stuck: str = ""
    waiting: str = ""
    queue_timeout: float | None = None
    exec_timeout: float | None = None
    due: datetime | None = None
    leased_until: datetime | None = None
    awaits: bool = False
    upstream: tuple[tuple[str, datetime | None], ...] = ()
    tries: tuple[TryRow, ...] = ()
    attempt: AttemptRow | None = None

    @property
    def present_status(self) -> str:
        """The status of the present attempt of a group that lives."""
        return self.attempt.status if self.attempt else self.status


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRow:
    """A workflow and the statuses of its groups, read together."""

    name: str
    status: str
    submitted: datetime
    ended_at: datetime | None
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRow:
    """A pool's objects in its cluster, as its scheduler backend says, each with ``api`` and name.

    Objects that list levels count by their ``levels``, labels broadest first, and not by their names.
    ``queues`` are the specs of its queue and of all that this leads to, where the service makes them.
    """

    cluster: str
    name: str
    objects: frozenset[tuple[str, str]] = frozenset()
    levels: frozenset[tuple[str, ...]] = frozenset()
    queues: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterObject:
    """An object with our label. ``api`` is its kind with its API group; ``group`` is None if it names none.

    ``is_pod_group`` and ``is_shared`` say that a scheduler backend brings its kind, for gangs or for pools.
    ``leads_to`` are the shared objects that it names, each as ``api`` and name. ``levels`` are the labels of
    an object that lists levels, None for any other. ``spec`` is kept of queues that the service makes and of
    what they lead to. ``pod`` is the pod that owns a claim.
    """

    api: str
    namespace: str
    name: str
    uid: str = ""
    group: UUID | None = None
    created: datetime | None = None
    deleting_since: datetime | None = None
    task: str = ""
    retry: str = ""
    phase: str = ""
    node: str = ""
    is_pod_group: bool = False
    is_shared: bool = False
    leads_to: tuple[tuple[str, str], ...] = ()
    levels: tuple[str, ...] | None = None
    spec: Mapping[str, Any] | None = None
    pod: str = ""

    @property
    def kind(self) -> str:
        return self.api.partition(".")[0]

    @property
    def label(self) -> str:
        prefix = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {prefix}{self.name}"

    @property
    def active(self) -> bool:
        """Of a pod: whether its containers run or may yet."""
        return self.phase not in ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCluster:
    """One cluster as listed; ``unserved`` names kinds that it does not serve.

    ``unread_queues``: those that the service makes were not asked for, or may not be listed.
    """

    uid: str
    backend: str
    listed_at: datetime
    objects: tuple[ClusterObject, ...]
    unserved: frozenset[str] = frozenset()
    unread_queues: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadCluster:
    """A backend whose cluster could not be listed, and why."""

    backend: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRefusal:
    """A backend in whose cluster this database may not write, and why."""

    backend: str
    cluster: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Backwards:
    """Steps of a task or group, oldest first, that go against the order of statuses."""

    workflow: str
    subject: str
    steps: tuple[str, ...]
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """The workers of all clusters: when they swept last, and how many groups are due."""

    swept_at: datetime | None = None
    due: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that is compared. ``owners`` maps the names of pods that own claims to their groups.

    ``unread`` are clusters of which nothing is known; no rule judges them.
    """

    now: datetime
    installation: UUID
    groups: Mapping[UUID, GroupRow] = field(default_factory=dict)
    workflows: tuple[WorkflowRow, ...] = ()
    pools: tuple[PoolRow, ...] = ()
    clusters: tuple[ObservedCluster, ...] = ()
    unread: tuple[UnreadCluster, ...] = ()
    freshness: Mapping[str, Freshness] = field(default_factory=dict)
    """How fresh the observer's rows are, by the uids of clusters."""

    owners: Mapping[str, UUID] = field(default_factory=dict)
    backwards: tuple[Backwards, ...] = ()
    refusals: tuple[WriteRefusal, ...] = ()
    workers: Workers = Workers()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerances:
    """How long the two sides may differ before it is a finding; docs/explanation/reliability.md derives them.

    ``due``: a due group without a worker. ``orphan``: an object that no row wants. ``half_made``: a gang of
    which only a part exists. ``release``: an ended group that is not released. ``overdue``: a timeout that
    had no effect.
    """

    due: timedelta = timedelta(seconds=120)
    orphan: timedelta = timedelta(seconds=300)
    half_made: timedelta = timedelta(seconds=300)
    release: timedelta = timedelta(seconds=300)
    overdue: timedelta = timedelta(seconds=120)

    @classmethod
    def all(cls, grace: timedelta, *, due_at_least: timedelta) -> Self:
        """One grace for everything; a due group needs at least the time between two sweeps."""
        tolerances = cls(**{limit.name: grace for limit in fields(cls)})
        return replace(tolerances, due=max(grace, due_at_least), overdue=max(grace, due_at_least))


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One difference from what is promised, in words for people.

    ``rule`` names the check. ``since`` is when it began, as far as either side records it. ``repair`` is what
    ``--repair`` does about it, empty for nothing. ``cluster`` and ``group_uuid`` are for the repair.
    """

    kind: KindOfFinding
    rule: str
    message: str
    since: datetime | None = None
    backend: str = ""
    workflow: str = ""
    group: str = ""
    object: str = ""
    repair: Repair = ""
    unsure: bool = False
    cluster: str = ""
    group_uuid: UUID | None = None

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """The same finding has the same key in every reading."""
        return self.rule, self.workflow, str(self.group_uuid or self.group), self.object, self.cluster
