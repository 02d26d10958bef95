"""A workflow as parsed: frozen values, every reference resolved, paths kept for later faults."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduling.errors import Path
from scheduling.requirements import Requirement
from workflows.values.placement import File


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """What a task asks for. ``memory`` and ``storage`` are Kubernetes quantities, empty for none.

    ``leaves_group_topology``: it said ``topology: []``, so its task group's own does not bind it.
    """

    name: str
    path: Path
    cpu: int = 0
    gpu: int = 0
    memory: str = ""
    storage: str = ""
    platform: str = ""
    nodes_excluded: tuple[str, ...] = ()
    topology: tuple[Requirement, ...] = ()
    leaves_group_topology: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """One task. ``exit_actions`` maps COMPLETE, FAIL and RESCHEDULE to checked ranges (``1-3,7``)."""

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
    lead: bool
    resource: Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """A task group; ``upstream`` names the groups whose tasks its tasks take input from.

    ``bare``: it was written as a task of its own under ``tasks:``. ``nvlink`` says whether it gets a
    ComputeDomain, None where its pool decides. ``topology`` binds every task that does not leave it.
    """

    name: str
    path: Path
    barrier: bool
    ignore_nonlead_status: bool
    tasks: tuple[TaskSpec, ...]
    upstream: tuple[str, ...] = ()
    bare: bool = False
    nvlink: bool | None = None
    topology: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowSpec:
    """A workflow. Timeouts are seconds, None where the pool's default holds."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[GroupSpec, ...]
    exec_timeout: float | None = None
    queue_timeout: float | None = None
