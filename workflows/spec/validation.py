"""A document held against the grammar, piece by piece: what is well written, and every fault of the rest.

A workflow may have 10,000 tasks, each of them wrong in a hundred places, and pydantic keeps every error of
what it is given. So tasks and resources are validated one at a time, and validation ends with the limit on
faults. A piece with faults is read on without its wrong fields, so that the same answer reports what else is
wrong with the workflow; names stay known, so that a reference to a faulty task is no second fault.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError

from scheduling.errors import Fault, InvalidSpec, Path
from workflows.spec.grammar import (
    GrammarModel,
    GroupModel,
    ResourceModel,
    RootModel,
    TaskModel,
    WorkflowModel,
    fault_of,
)
from workflows.spec.limits import SpecLimits

ROOT: Path = ("workflow",)

Model = TypeVar("Model", bound=GrammarModel)


@dataclass(slots=True)
class Validator:
    """One document's validation; ``faults`` fill as it goes."""

    limits: SpecLimits
    faults: list[Fault] = field(default_factory=list)

    @property
    def full(self) -> bool:
        return len(self.faults) >= self.limits.faults

    def workflow(self, data: Any) -> WorkflowModel:
        """The workflow, its groups, tasks and resources still raw. Raises InvalidSpec if there is none."""
        root = self._model(RootModel, data, (), stand_ins={})
        workflow = (
            self._model(WorkflowModel, root.workflow, ROOT, stand_ins={"name": "unnamed"}) if root else None
        )
        if workflow is None:
            raise InvalidSpec("The workflow cannot be accepted.", self.faults)
        self._count(workflow)
        return workflow

    def groups(self, workflow: WorkflowModel) -> Iterator[GroupModel]:
        """The task groups that can be read, those of bare tasks included."""
        for index, raw in enumerate(workflow.groups or []):
            if self.full:
                break
            path = (*ROOT, "groups", index)
            group = self._model(GroupModel, raw, path, stand_ins={"name": f"unnamed-{index}"})
            if group is not None:
                tasks = tuple(self._tasks(group.tasks, (*path, "tasks")))
                complete = len(tasks) == len(group.tasks) and all(task.complete for task in tasks)
                yield group.model_copy(update={"tasks": tasks}).placed(path, complete=complete)
        for task in self._tasks(workflow.tasks or [], (*ROOT, "tasks")):
            yield GroupModel.of_bare_task(task)

    def resources(self, workflow: WorkflowModel) -> Iterator[tuple[str, ResourceModel]]:
        """The resource specs by name; one that cannot be read is an empty one."""
        for name, raw in workflow.resources.items():
            path = (*ROOT, "resources", name)
            model = None if self.full else self._model(ResourceModel, raw, path, stand_ins={})
            yield name, (model or ResourceModel()).placed(path)

    def _tasks(self, raws: Iterable[Any], at: Path) -> Iterator[TaskModel]:
        for index, raw in enumerate(raws):
            if self.full:
                return
            before = len(self.faults)
            stand_ins: dict[str, Any] = {"image": "none", "command": ["none"]}
            if isinstance(raw, dict) and "count" in raw:  # so that no fault follows from a wrong count
                stand_ins["count"] = 1
            task = self._model(TaskModel, raw, (*at, index), stand_ins=stand_ins)
            if task is not None:
                yield task.placed((*at, index), complete=len(self.faults) == before)

    def _model(self, kind: type[Model], raw: Any, at: Path, *, stand_ins: dict[str, Any]) -> Model | None:
        """The piece as a model; without its wrong fields, if that is enough; else None.

        ``stand_ins`` take the place of needed fields that are wrong or missing.
        """
        try:
            return kind.model_validate(raw)
        except ValidationError as error:
            errors = error.errors(include_url=False)
        room = self.limits.faults - len(self.faults)
        self.faults += [
            fault_of({**error, "loc": _as_written(error["loc"], raw)}, model=kind, at=at)
            for error in errors[: max(room, 0)]
        ]
        if not isinstance(raw, dict):
            return None
        wrong = {error["loc"][0] for error in errors if error["loc"]}
        remainder = {key: value for key, value in raw.items() if key not in wrong}
        try:
            return kind.model_validate(stand_ins | remainder)
        except ValidationError:
            return None

    def _count(self, workflow: WorkflowModel) -> None:
        """Refuse a workflow of too many tasks before any is validated."""
        entries = [((*ROOT, "tasks", index), task) for index, task in enumerate(workflow.tasks or [])]
        for index, group in enumerate(workflow.groups or []):
            at = (*ROOT, "groups", index, "tasks")
            entries += [((*at, place), task) for place, task in enumerate(_tasks_in(group))]
        count = sum(_count_of(task) for _, task in entries)
        if count > self.limits.tasks:
            message = f"The workflow has {count} tasks; at most {self.limits.tasks} are accepted."
            path, largest = max(entries, key=lambda entry: _count_of(entry[1]))
            place = (*path, "count") if _count_of(largest) > 1 else ROOT
            fault = Fault(place, "too_many_tasks", message, allowed=(str(self.limits.tasks),))
            raise InvalidSpec(message, [*self.faults, fault])


def _as_written(loc: tuple[int | str, ...], raw: Any) -> tuple[int | str, ...]:
    """The place of an error in the document, where one segment may stand without a list around it."""
    alone = loc[:1] == ("segment",) and isinstance(raw["segment"], dict)
    return (*loc[:1], *loc[2:]) if alone else loc


def _tasks_in(group: Any) -> list[Any]:
    tasks = group.get("tasks") if isinstance(group, dict) else None
    return tasks if isinstance(tasks, list) else []


def _count_of(task: Any) -> int:
    """The tasks that an entry makes; one where its count cannot be read."""
    count = task.get("count") if isinstance(task, dict) else None
    return count if type(count) is int and count > 0 else 1
