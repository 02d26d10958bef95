"""The part of a task group and its tasks that submission freezes, as values and as JSON.

Everything needed to create, follow and take down a group is here, so no later edit of its pool,
platform or backend reaches it; rows that may change (status, retries, generation) do not. ``GroupPlacement``
is ``TaskGroup.placement``, ``TaskPlacement`` is ``Task.spec``.

The JSON leaves out defaults, since a workflow may have 10,000 tasks. A reader refuses a value that it does
not know instead of guessing, so a worker that is older than the web process leaves the group to a newer one,
and goes on with all groups that ask for nothing new: a new value with a default needs no more than that.
``version`` is the number of the format, refused likewise; it grows where known values mean something new.
Rejected: foreign keys to the pool and its platforms, which a rename or a delete would break.

Requirements are those in force: a task group's own topology is written into each task that inherits it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache, cached_property
from sys import intern
from typing import Any, Protocol, TypeVar
from uuid import UUID

from pools.values.recovery import RecoveryPolicy
from scheduling.gang.gang_form import USUAL_FORM, GangForm
from scheduling.terms import SchedulingTerms
from scheduling.topology.levels import Level
from scheduling.topology.requirements import Gang, GangTask, Requirement
from workflows.values.counted import Counted

T = TypeVar("T")

VERSION = 1
"""The format of ``TaskGroup.placement`` that this release writes and reads."""

RESTART_GROUP = "RESTART_GROUP"
"""The exit action with which the whole group is tried again."""

RESCHEDULE = "RESCHEDULE"

NO_RECOVERY = RecoveryPolicy()

START_TIMEOUT = 1800.0
"""Seconds for a pod to start on its node, where nothing else is configured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenTemplate:
    """What templates lay over the pods of a platform: part of a pod, and values of its variables."""

    pod: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartBarrier:
    """The program that lets no task of a group begin before all have addresses, for ``limit`` seconds."""

    image: str
    command: tuple[str, ...]
    limit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlacement:
    """A task group's share of its pool, backend and workflow."""

    terms: SchedulingTerms
    """The pool's, the same for every group of the workflow."""

    priority_class: str = ""
    """Its name in the cluster; empty: none."""

    nvlink: bool = False
    """Whether this group gets a ComputeDomain."""

    claims: Mapping[str, int] = field(default_factory=dict)
    """With a ComputeDomain, how many of its tasks have each ``gang.nvlink.ChannelClaim``."""

    domain_nodes: int = 0
    """How many nodes the ComputeDomain waits for; 0: the driver's daemons need no number."""

    claim_gpus: Mapping[str, int] = field(default_factory=dict)
    """By platform, the least GPUs that a task with a channel asks its scheduler for, if that counts none."""

    free_preferences_after: int = 0
    """After how many seconds its preferences may give way; 0: never."""

    exec_timeout: float
    """Seconds, as the other timeouts are."""

    queue_timeout: float

    start_timeout: float = START_TIMEOUT
    """For a pod to start on its node."""

    start_barrier: StartBarrier | None = None
    """None: each task begins by itself."""

    default_exit_actions: Mapping[str, str] = field(default_factory=dict)
    """The pool's, applied after a task's own: ``{"RESCHEDULE": "1-3,7"}``."""

    max_retry_per_task: int = 0

    recovery: RecoveryPolicy = NO_RECOVERY
    """What follows when it loses a task."""

    attempts: bool = False
    """Whether it may be tried again as a whole."""

    workflow_name: str
    workflow_uuid: UUID
    submitted_by: str

    labels: Mapping[str, str] = field(default_factory=dict)
    """The user's."""

    priority: str = "NORMAL"

    default_topology: Mapping[str, Any] = field(default_factory=dict)
    """The default that it got (``admission.default_topology.GroupDefault``); its tasks have it, too."""

    templates: Mapping[str, FrozenTemplate] = field(default_factory=dict)
    """By platform, here and not with each of the tasks."""

    template_revisions: Mapping[str, int] = field(default_factory=dict)
    """Of the sources of ``templates``, by name."""

    def gpus_beside_claims(self, tasks: Iterable["TaskPlacement"]) -> dict[str, int]:
        """The GPUs that a task asks its scheduler for at least, by each shape that claims a channel."""
        return {
            shape_of(task): max(task.gpu, self.claim_gpus.get(task.platform, 0))
            for task in tasks
            if self.nvlink and task.claims_channel
        }

    def to_json(self) -> dict[str, Any]:
        """Values of JSON alone; ``from_json`` is its inverse."""
        terms = _without_defaults(
            self.terms,
            installation=self.terms.installation.hex,
            levels=[{"key": level.key, "label": level.label} for level in self.terms.levels],
        )
        own = _without_defaults(
            self,
            workflow_uuid=self.workflow_uuid.hex,
            templates={name: _without_defaults(template) for name, template in self.templates.items()},
            recovery=self.recovery.to_json(),
            start_barrier=_without_defaults(self.start_barrier) if self.start_barrier else None,
        )
        del own["terms"]
        return {"version": VERSION, **terms, **own}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "GroupPlacement":
        """Read a row's placement. Raises ValueError for a version or a value this release does not know."""
        read = dict(value)
        if (version := read.pop("version", None)) != VERSION:
            raise ValueError(f"placement of version {version!r}; this release reads version {VERSION}")
        terms = {name: read.pop(name) for name in _TERMS if name in read}
        read["workflow_uuid"] = UUID(read["workflow_uuid"])
        terms["installation"] = UUID(terms["installation"])
        terms["levels"] = tuple(_read(Level, level) for level in terms.get("levels", ()))
        read["terms"] = SchedulingTerms(**terms)
        templates = read.get("templates", {})
        read["templates"] = {name: _read(FrozenTemplate, template) for name, template in templates.items()}
        read["recovery"] = RecoveryPolicy.from_json(read.get("recovery", {}))
        if barrier := read.get("start_barrier"):
            read["start_barrier"] = _read(StartBarrier, {**barrier, "command": tuple(barrier["command"])})
        return _read(cls, read)


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file put into the task's container; ``base64`` says that the contents are encoded."""

    path: str
    contents: str
    base64: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlacement:
    """One task, ready to become a pod.

    Tokens such as ``{{host:other}}`` in command, args, environment and files are still as written.
    """

    image: str
    command: tuple[str, ...]
    args: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    files: tuple[File, ...] = ()
    privileged: bool = False
    host_network: bool = False

    volume_mounts: tuple[str, ...] = ()
    """The source of each is a directory of the node up to ``/./``; the rest is looked up inside it."""

    credentials: Mapping[str, str | Mapping[str, str]] = field(default_factory=dict)
    """By name of a Secret, which is not the user's: the directory of its mount, or ``{variable: key}``."""

    cpu: int = 0
    gpu: int = 0

    memory: str = ""
    """A Kubernetes quantity, as ``storage`` is; empty: none."""

    storage: str = ""
    platform: str = ""

    node_selector: Mapping[str, str] = field(default_factory=dict)
    """The pool's and the platform's, merged, as ``tolerations`` are."""

    tolerations: tuple[Mapping[str, Any], ...] = ()

    nodes_excluded: tuple[str, ...] = ()
    """By their label kubernetes.io/hostname."""

    requirements: tuple[Requirement, ...] = ()

    exit_actions: Mapping[str, str] = field(default_factory=dict)
    """The task's own."""

    lead: bool = False

    claims_channel: bool = False
    """Whether the user's container claims a channel of the group's ComputeDomain."""

    grace_period: int = 0
    """How many seconds it may go on after it was asked to end; 0: Kubernetes' own choice."""

    counted: Counted | None = None
    """The entry with ``count`` that it comes from; tasks of one entry and segment share this placement."""

    def to_json(self) -> dict[str, Any]:
        """Values of JSON alone; ``from_json`` is its inverse, but for where requirements were written."""
        return _without_defaults(
            self,
            files=[_without_defaults(file) for file in self.files],
            requirements=[_requirement(requirement) for requirement in self.requirements],
            counted=self.counted.to_json() if self.counted else None,
        )

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "TaskPlacement":
        """Read a row's spec. Raises ValueError for a value this release does not know."""
        read: dict[str, Any] = {key: _shared(entry) for key, entry in value.items()}
        read["files"] = tuple(_read(File, file) for file in read.get("files", ()))
        read["requirements"] = requirements_from_json(read.get("requirements"))
        if counted := read.get("counted"):
            read["counted"] = _read(Counted, counted)
        return _read(cls, read)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTry:
    """One try of one task, as rendering sees it: the row's own values and the frozen ones.

    ``generation`` is that of the group's pod groups that its pod joins, ``first_retry`` the try with which
    its group's attempt began.
    """

    task_uuid: UUID
    name: str
    retry_id: int
    placement: TaskPlacement
    generation: int = 0
    first_retry: int = 0

    @property
    def index(self) -> int | None:
        """Its place in its entry with ``count``; None: it is an entry itself."""
        counted = self.placement.counted
        return counted.index(self.name) if counted else None

    @property
    def replaces(self) -> bool:
        """Whether it follows another try in the same attempt, beside peers that may still run."""
        return self.retry_id > self.first_retry

    def avoiding(self, nodes: Iterable[str]) -> "TaskTry":
        """The try with these nodes, by their label kubernetes.io/hostname, excluded too."""
        excluded = tuple(dict.fromkeys((*self.placement.nodes_excluded, *nodes)))
        return replace(self, placement=replace(self.placement, nodes_excluded=excluded))


@dataclass(frozen=True, kw_only=True)
class GroupValues:
    """All that rendering a task group depends on."""

    uuid: UUID
    name: str

    generation: int
    """How often its pod groups were made anew, from 0."""

    placement: GroupPlacement

    tasks: tuple[TaskTry, ...]
    """The latest try of each task, in the user's order."""

    earlier: tuple[TaskTry, ...] = ()
    """The tries before those, which give the number of pods of an earlier generation's pod group."""

    form: GangForm = USUAL_FORM

    attempt_number: int = 1
    """How often the group is tried as a whole, from 1."""

    last_end: str = ""
    """The loss that ended the attempt before; empty for the first."""

    nodes: Mapping[str, str] = field(default_factory=dict)
    """Those that its scheduler assigned to tasks before they have pods."""

    left_out: tuple[str, ...] = ()
    """Nodes on which it asks for no room at present, by their label kubernetes.io/hostname."""

    @property
    def requires_domain(self) -> bool:
        """Whether tasks must share a domain."""
        return any(req.required for task in self.tasks for req in task.placement.requirements)

    @cached_property
    def gang(self) -> Gang:
        """The group as the scheduling core sees it."""
        return gang_of(self.name, self.tasks)

    def in_form(self, **changes: Any) -> "GroupValues":
        """The group with these fields of its form changed."""
        return replace(self, form=replace(self.form, **changes))

    def avoiding(self, nodes: Collection[str]) -> "GroupValues":
        """The group with these nodes excluded for every task, beside those that the user excludes."""
        return replace(self, tasks=tuple(task.avoiding(nodes) for task in self.tasks)) if nodes else self

    def assigned(self, nodes: Mapping[str, str]) -> "GroupValues":
        """The group with the nodes that its scheduler assigned to these tasks."""
        return replace(self, nodes=nodes)


def gang_of(name: str, tasks: Iterable[TaskTry]) -> Gang:
    """These tries as one gang of the scheduling core."""
    tasks = tuple(tasks)
    placements = {id(task.placement): task.placement for task in tasks}  # tasks of one entry share theirs
    shapes = {key: shape_of(placement) for key, placement in placements.items()}
    members = (
        GangTask(
            task.name,
            task.placement.gpu,
            task.placement.requirements,
            shape=shapes[id(task.placement)],
        )
        for task in tasks
    )
    return Gang(name, tuple(members))


class Shaped(Protocol):
    """What a task asks of its node, in a spec or frozen."""

    @property
    def cpu(self) -> int: ...
    @property
    def gpu(self) -> int: ...
    @property
    def memory(self) -> str: ...
    @property
    def storage(self) -> str: ...
    @property
    def nodes_excluded(self) -> tuple[str, ...]: ...
    @property
    def platform(self) -> str: ...


def shape_of(task: Shaped, *, platform: str | None = None) -> str:
    """A text that is the same for tasks whose pods can stand in for each other (``GangTask.shape``)."""
    hardware = task.platform if platform is None else platform
    return f"{hardware} {task.gpu} {task.cpu} {task.memory} {task.storage} {','.join(task.nodes_excluded)}"


def may_be_tried_again(placement: GroupPlacement, tasks: Iterable[TaskPlacement]) -> bool:
    """Whether anything that is frozen of a group asks for attempts."""
    tasks = tuple(tasks)
    actions = (placement.default_exit_actions, *(task.exit_actions for task in tasks))
    again = any(RESTART_GROUP in table or RESCHEDULE in table for table in actions)
    graced = any(task.grace_period for task in tasks)
    return placement.recovery.recovers or again or graced or placement.start_barrier is not None


def _requirement(value: Requirement) -> dict[str, Any]:
    patience = {} if value.wait_seconds is None else {"wait_seconds": value.wait_seconds}
    return {"key": value.key, "group": value.group, "required": value.required, **patience}


def _without_defaults(value: Any, **ready: Any) -> dict[str, Any]:
    """A dataclass as JSON, without the fields that have their default; ``ready`` has converted fields."""
    result = {}
    for name, has_empty_default, default in _defaults(value.__class__):
        current = getattr(value, name)
        if not current if has_empty_default else current == default:
            continue
        current = ready.get(name, current)
        result[name] = list(current) if isinstance(current, tuple) else current
    return result


_TERMS = frozenset(each.name for each in fields(SchedulingTerms))
"""In the JSON they stand beside a group's own values, where queries of rows read them."""


def requirements_from_json(entries: Iterable[Mapping[str, Any]] | None) -> tuple[Requirement, ...]:
    """The requirements of a frozen task. Raises ValueError for one that this release does not know."""
    return tuple(_read(Requirement, entry) for entry in entries or ())


def _shared(entry: Any) -> Any:
    """A value of JSON, whose texts are one object wherever they are equal: gangs repeat them in each task."""
    if isinstance(entry, str):
        return intern(entry)
    if isinstance(entry, list):
        return tuple(map(_shared, entry))
    return {intern(key): _shared(each) for key, each in entry.items()} if isinstance(entry, dict) else entry


def _read(kind: Callable[..., T], value: Mapping[str, Any]) -> T:
    if unknown := value.keys() - _names(kind):
        raise ValueError(f"placement with {', '.join(sorted(unknown))}, which this release does not know")
    return kind(**value)


@cache
def _names(kind: Any) -> frozenset[str]:
    return frozenset(each.name for each in fields(kind))


@cache
def _defaults(kind: type) -> tuple[tuple[str, bool, Any], ...]:
    """Each field of a dataclass: its name, whether its default is an empty container, else the default."""
    return tuple((each.name, each.default_factory is not MISSING, each.default) for each in fields(kind))
