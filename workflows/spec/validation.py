"""A document held against the grammar, piece by piece: what is well written, and every fault of the rest.

A workflow may have 10,000 tasks, each of them wrong in a hundred places, and pydantic keeps every error of
what it is given. So tasks and resources are checked one at a time, and checking ends with the limit on
faults. A piece with faults is read on without its wrong fields, so that what else is wrong with the
workflow is told in the same answer; names stay known, so that no reference to a faulty task is a second
fault.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError

from scheduling.errors import Fault, InvalidSpec, Path
from workflows.spec.grammar import (
    GroupModel,
    ResourceModel,
    RootModel,
    Strict,
    TaskModel,
    TopologyEntry,
    WorkflowModel,
    fault_of,
)
from workflows.spec.limits import SpecLimits

ROOT: Path = ("workflow",)

Model = TypeVar("Model", bound=Strict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenTask:
    """``sound``: nothing was left out of it."""

    model: TaskModel
    path: Path
    sound: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenGroup:
    """A task group as written; a bare task is one of its own. ``sound``: all its tasks are."""

    name: str
    path: Path
    tasks: tuple[WrittenTask, ...]
    barrier: bool
    asks_barrier: bool = False  # whether it was written, and not only left to be so
    ignore_nonlead_status: bool
    nvlink: bool | None
    topology: tuple[TopologyEntry, ...] = ()
    bare: bool
    sound: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A workflow as written. ``count`` is the number of tasks, those included that cannot be read."""

    workflow: WorkflowModel
    groups: tuple[WrittenGroup, ...]
    resources: dict[str, ResourceModel]
    faults: tuple[Fault, ...]


def written(data: Any, *, limits: SpecLimits) -> Written:
    """Check parsed data against the grammar. Raises InvalidSpec where that leaves nothing to read."""
    checker = _Checker(limits)
    root = checker.model(RootModel, data, (), stand_ins={})
    workflow = (
        checker.model(WorkflowModel, root.workflow, ROOT, stand_ins={"name": "unnamed"}) if root else None
    )
    if workflow is None:
        raise InvalidSpec("The workflow cannot be accepted.", checker.faults)
    checker.count(workflow)
    groups = (*checker.groups(workflow.groups or []), *checker.bare(workflow.tasks or []))
    resources = {name: checker.resource(name, raw) for name, raw in workflow.resources.items()}
    return Written(workflow=workflow, groups=groups, resources=resources, faults=tuple(checker.faults))


@dataclass(slots=True)
class _Checker:
    limits: SpecLimits
    faults: list[Fault] = field(default_factory=list)

    def model(self, kind: type[Model], raw: Any, at: Path, *, stand_ins: dict[str, Any]) -> Model | None:
        """The piece as a model; without its wrong fields, if that is enough; else None.

        ``stand_ins`` take the place of needed fields that are wrong or missing.
        """
        try:
            return kind.model_validate(raw)
        except ValidationError as error:
            errors = error.errors(include_url=False)
        room = self.limits.faults - len(self.faults)
        self.faults += [fault_of(one, model=kind, at=at) for one in errors[: max(room, 0)]]
        if not isinstance(raw, dict):
            return None
        wrong = {one["loc"][0] for one in errors if one["loc"]}
        rest = {key: value for key, value in raw.items() if key not in wrong}
        try:
            return kind.model_validate(stand_ins | rest)
        except ValidationError:
            return None

    def count(self, workflow: WorkflowModel) -> None:
        """Refuse a workflow of too many tasks before they are looked at."""
        count = len(workflow.tasks or []) + sum(_tasks_in(group) for group in workflow.groups or [])
        if count > self.limits.tasks:
            message = f"The workflow has {count} tasks; at most {self.limits.tasks} are accepted."
            fault = Fault(ROOT, "too_many_tasks", message, allowed=(str(self.limits.tasks),))
            raise InvalidSpec(message, [*self.faults, fault])

    def groups(self, raws: Iterable[Any]) -> Iterable[WrittenGroup]:
        for index, raw in enumerate(raws):
            path = (*ROOT, "groups", index)
            if self.full:
                return
            group = self.model(GroupModel, raw, path, stand_ins={"name": f"unnamed-{index}"})
            if group is None:
                continue
            tasks = tuple(self.tasks(group.tasks, (*path, "tasks")))
            yield WrittenGroup(
                name=group.name,
                path=path,
                tasks=tasks,
                barrier=group.barrier,
                asks_barrier=group.barrier and "barrier" in group.model_fields_set,
                ignore_nonlead_status=group.ignoreNonleadStatus,
                nvlink=group.nvlink,
                topology=group.topology,
                bare=False,
                sound=len(tasks) == len(group.tasks) and all(task.sound for task in tasks),
            )

    def bare(self, raws: Iterable[Any]) -> Iterable[WrittenGroup]:
        for task in self.tasks(raws, (*ROOT, "tasks")):
            yield WrittenGroup(
                name=f"{task.model.name}-group",
                path=task.path,
                tasks=(task,),
                barrier=True,
                ignore_nonlead_status=True,
                nvlink=None,
                bare=True,
                sound=task.sound,
            )

    def tasks(self, raws: Iterable[Any], at: Path) -> Iterable[WrittenTask]:
        for index, raw in enumerate(raws):
            if self.full:
                return
            before = len(self.faults)
            stand_ins = {"image": "none", "command": ["none"]}
            model = self.model(TaskModel, raw, (*at, index), stand_ins=stand_ins)
            if model is not None:
                yield WrittenTask(model=model, path=(*at, index), sound=len(self.faults) == before)

    def resource(self, name: str, raw: Any) -> ResourceModel:
        path = (*ROOT, "resources", name)
        return (not self.full and self.model(ResourceModel, raw, path, stand_ins={})) or ResourceModel()

    @property
    def full(self) -> bool:
        return len(self.faults) >= self.limits.faults


def _tasks_in(group: Any) -> int:
    tasks = group.get("tasks") if isinstance(group, dict) else None
    return len(tasks) if isinstance(tasks, list) else 0
