"""A workflow as read from its text: frozen values, every reference resolved, paths kept for later faults.

Those of which a workflow has many have no slots: a large text is read in another process, and pickle reads
and writes a frozen value with slots field by field in Python, one without by itself.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pools.documents.yaml_text import LocatedText
from pools.values.recovery_words import RecoveryWords
from scheduling.errors import Fault, Notice, Path, format_path
from scheduling.topology.requirements import Requirement
from workflows.values.counted import Counted
from workflows.values.placement import File


@dataclass(frozen=True, kw_only=True)
class Resource:
    """A resource spec."""

    name: str
    path: Path
    cpu: int = 0
    gpu: int = 0

    memory: str = ""
    """A Kubernetes quantity, as ``storage`` is; empty: none."""

    storage: str = ""
    platform: str = ""
    nodes_excluded: tuple[str, ...] = ()
    topology: tuple[Requirement, ...] = ()

    leaves_group_topology: bool = False
    """Whether it has ``topology: []``, so that its task group's own does not bind it."""


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """One task."""

    name: str
    path: Path
    image: str
    command: tuple[str, ...]
    args: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    files: tuple[File, ...] = ()
    privileged: bool = False
    host_network: bool = False
    volume_mounts: tuple[str, ...] = ()
    credentials: Mapping[str, str | Mapping[str, str]] = field(default_factory=dict)

    exit_actions: Mapping[str, str] = field(default_factory=dict)
    """By name of an action, checked ranges (``1-3,7``)."""

    lead: bool

    nvlink: bool | None = None
    """Whether it claims its node's NVLink channel; None: ``auto``."""

    grace_period: int = 0
    """Seconds; 0: it says none."""

    resource: Resource

    counted: Counted | None = None
    """The entry with ``count`` that it comes from, with which it shares its path; None: it is one itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """A task group."""

    name: str
    path: Path
    barrier: bool

    asks_barrier: bool = False
    """Whether the document itself says ``barrier: true``."""

    ignore_nonlead_status: bool
    tasks: tuple[TaskSpec, ...]

    upstream: tuple[str, ...] = ()
    """The groups whose tasks its tasks take input from."""

    bare: bool = False
    """Whether it is one task written under ``tasks:``."""

    nvlink: bool | None = None
    """False: no ComputeDomain; True: all its tasks with GPUs claim a channel of it; None: ``auto``."""

    topology: tuple[Requirement, ...] = ()
    """It binds every task that does not leave it."""

    leaves_default: bool = False
    """Whether it has ``topology: []``, so that no default of its pool binds it."""

    recovery: tuple[RecoveryWords, ...] = ()
    """What the workflow and the group say of it, in this order."""


def last_of_each_entry(group: GroupSpec) -> Collection[TaskSpec]:
    """One task for all that an entry makes: they differ in names and numbers, the last has the longest."""
    return {task.path: task for task in group.tasks}.values()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowSpec:
    """A workflow, and the text it was read from."""

    name: str
    labels: Mapping[str, str]

    environment: Mapping[str, str] = field(default_factory=dict)
    """Laid over that of every task."""

    groups: tuple[GroupSpec, ...]

    notify: tuple[Mapping[str, Any], ...] = ()
    """Targets of its news, as its row keeps them (``pools.values.news_targets``)."""

    pool: str = ""
    """Where its author wants it, as ``backend`` is; empty: that is left to the request."""

    backend: str = ""

    exec_timeout: float | None
    """Seconds, as ``queue_timeout`` is; None: the pool's default holds."""

    queue_timeout: float | None

    rendered: str
    """The text in which lines and columns count."""

    template: str | None
    """The text before it was rendered; None: nothing was templated."""

    places: LocatedText
    """The lines and columns of values in ``rendered``."""

    warnings: tuple[Notice, ...]

    faults: tuple[Fault, ...]
    """With any, the values are good for finding more of them, and for nothing else."""

    def locate_faults(self, faults: Sequence[Fault]) -> list[Fault]:
        """Faults of later checks with line and column, in document order."""
        return located(faults, self.places)


def located(faults: Sequence[Fault], places: LocatedText) -> list[Fault]:
    """Faults with line and column, in document order. Those with a place keep it."""
    unplaced = {fault.path: (1, 1) for fault in faults if fault.line is None}
    unplaced |= zip(unplaced, places.locate_all(list(unplaced)), strict=True)
    placed = []
    for fault in faults:
        line, column = unplaced[fault.path] if fault.line is None else (fault.line, fault.column)
        placed.append(replace(fault, line=line, column=column))
    return sorted(placed, key=lambda fault: (fault.line or 0, fault.column or 0, format_path(fault.path)))
