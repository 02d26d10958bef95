"""A workflow as read from its text: frozen values, every reference resolved, paths kept for later faults.

Those of which a workflow has many have no slots: a large text is read in another process, and pickle reads
and writes a frozen value with slots field by field in Python, one without by itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pools.documents.yaml_text import Places
from pools.values.recovery_words import RecoveryWords
from scheduling.errors import Fault, Notice, Path, format_path
from scheduling.requirements import Requirement
from workflows.values.placement import File


@dataclass(frozen=True, kw_only=True)
class Resource:
    """A resource spec. ``memory`` and ``storage`` are Kubernetes quantities, empty for none.

    ``leaves_group_topology``: it has ``topology: []``, so its task group's own does not bind it.
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


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """One task. ``exit_actions`` maps names of actions to checked ranges (``1-3,7``).

    ``nvlink`` says whether it claims its node's NVLink channel, None for ``auto``. ``grace_period`` is in
    seconds, 0 where it says none.
    """

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
    nvlink: bool | None = None
    grace_period: int = 0
    resource: Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """A task group; ``upstream`` names the groups whose tasks its tasks take input from.

    ``bare``: it is one task written under ``tasks:``. ``nvlink``: False gives it no ComputeDomain, True
    makes all its tasks with GPUs claim a channel of it, None is ``auto``. ``topology`` binds every task
    that does not leave it. ``recovery`` is what the workflow and the group say of it, in this order.
    ``asks_barrier``: the document itself says ``barrier: true``.
    """

    name: str
    path: Path
    barrier: bool
    asks_barrier: bool = False
    ignore_nonlead_status: bool
    tasks: tuple[TaskSpec, ...]
    upstream: tuple[str, ...] = ()
    bare: bool = False
    nvlink: bool | None = None
    topology: tuple[Requirement, ...] = ()
    recovery: tuple[RecoveryWords, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowSpec:
    """A workflow, and the text it was read from. Timeouts are seconds, None where the pool's default holds.

    ``pool`` and ``backend`` are where its author wants it, empty where that is left to the request.
    ``environment`` is laid over that of every task. Lines and columns count in ``rendered``, of which
    ``places`` knows them; ``template`` is the text before it was rendered, None where nothing was
    templated. With ``faults`` the values are good for finding more of them, and for nothing else.
    """

    name: str
    labels: Mapping[str, str]
    environment: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[GroupSpec, ...]
    pool: str = ""
    backend: str = ""
    exec_timeout: float | None
    queue_timeout: float | None
    rendered: str
    template: str | None
    places: Places
    warnings: tuple[Notice, ...]
    faults: tuple[Fault, ...]

    def locate_faults(self, faults: Sequence[Fault]) -> list[Fault]:
        """Faults of later checks with line and column, in document order."""
        return located(faults, self.places)


def located(faults: Sequence[Fault], places: Places) -> list[Fault]:
    """Faults with line and column, in document order. Those with a place keep it."""
    unplaced = {fault.path: (1, 1) for fault in faults if fault.line is None}
    unplaced |= zip(unplaced, places.locate_all(list(unplaced)), strict=True)
    placed = []
    for fault in faults:
        line, column = unplaced[fault.path] if fault.line is None else (fault.line, fault.column)
        placed.append(replace(fault, line=line, column=column))
    return sorted(placed, key=lambda fault: (fault.line or 0, fault.column or 0, format_path(fault.path)))
