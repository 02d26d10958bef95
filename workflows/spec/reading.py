"""From checked models to values: references resolved, names compared, every fault collected."""

import base64
import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduling.errors import Fault, Notice, Path, listing
from scheduling.requirements import Requirement
from workflows.placement import File
from workflows.spec import words
from workflows.spec.document import Limits
from workflows.spec.grammar import GroupModel, ResourceModel, TaskModel, WorkflowModel
from workflows.spec.values import GroupSpec, Resource, TaskSpec, WorkflowSpec

ROOT: Path = ("workflow",)
NOT_CARRIED_OUT = {
    "outputs": "results are not uploaded",
    "kpis": "KPIs are not collected",
    "downloadType": "data is not downloaded",
    "cacheSize": "there is no cache",
    "checkpoint": "checkpoints are not uploaded",
}


@dataclass(frozen=True, slots=True)
class _Group:
    """A task group as written; a bare task is one of its own."""

    name: str
    path: Path
    tasks: tuple[tuple[TaskModel, Path], ...]
    barrier: bool
    ignore_nonlead_status: bool
    bare: bool
    nvlink: bool | None = None


@dataclass(slots=True)
class Reader:
    """One reading; ``faults`` and ``notices`` fill as it goes."""

    model: WorkflowModel
    limits: Limits
    allow_localpath: bool
    faults: list[Fault] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    def read(self) -> WorkflowSpec:
        """Build the values; meaningful only if no fault was found."""
        groups = list(self._groups())
        self._check_names(groups)
        self._check_labels()
        resources = {name: self._resource(name, one) for name, one in self.model.resources.items()}
        resources.setdefault("default", Resource(name="default", path=(*ROOT, "resources", "default")))
        home = {task.name: group.name for group in groups for task, _ in group.tasks}
        upstream = {group.name: self._upstream(group, home) for group in groups}
        self._check_cycles(groups, upstream)
        return WorkflowSpec(
            name=self.model.name,
            labels=self.model.labels,
            groups=tuple(
                GroupSpec(
                    name=group.name,
                    path=group.path,
                    barrier=group.barrier,
                    ignore_nonlead_status=group.ignore_nonlead_status,
                    tasks=self._tasks(group, resources),
                    upstream=upstream[group.name],
                    bare=group.bare,
                    nvlink=group.nvlink,
                )
                for group in groups
            ),
            exec_timeout=self._timeout("exec_timeout"),
            queue_timeout=self._timeout("queue_timeout"),
        )

    def _fault(self, path: Path, code: str, message: str, *, allowed: Sequence[str] | None = None) -> None:
        self.faults.append(
            Fault(path, code, message, allowed=tuple(allowed) if allowed is not None else None)
        )

    def _groups(self) -> Iterator[_Group]:
        model = self.model
        if bool(model.groups) == bool(model.tasks):
            said = "either groups or tasks, not both" if model.groups else "at least one group or task"
            self._fault(
                ROOT, "no_tasks" if not model.groups else "groups_and_tasks", f"A workflow has {said}."
            )
        for index, group in enumerate(model.groups or []):
            path = (*ROOT, "groups", index)
            tasks = tuple((task, (*path, "tasks", place)) for place, task in enumerate(group.tasks))
            yield _group(group, path, tasks)
        for index, task in enumerate(model.tasks or []):
            path = (*ROOT, "tasks", index)
            yield _Group(
                f"{task.name}-group",
                path,
                ((task, path),),
                barrier=True,
                ignore_nonlead_status=True,
                bare=True,
            )

    def _check_names(self, groups: Sequence[_Group]) -> None:
        named: list[tuple[str, Path, str]] = [(self.model.name, (*ROOT, "name"), "")]
        count = 0
        for group in groups:
            named.append((group.name, group.path if group.bare else (*group.path, "name"), "group"))
            named += [(task.name, (*path, "name"), "task") for task, path in group.tasks]
            count += len(group.tasks)
        if count > self.limits.tasks:
            message = f"The workflow has {count} tasks; at most {self.limits.tasks} are accepted."
            self._fault(ROOT, "too_many_tasks", message)
        seen: dict[str, str] = {}
        for name, path, kind in named:
            bare = kind == "group" and path[-1] != "name"
            if not bare and (wrong := words.name_fault(name)):
                self._fault(path, "name", wrong)
            if kind == "task" and words.folded(name) in words.RESERVED_TASKS:
                self._fault(path, "name", f'No task may be called "{name}".')
            if not kind:
                continue
            key = words.folded(name)
            if key in seen:
                message = (
                    f'The {kind} "{name}" and the {seen[key]} have the same name; '
                    'case, "_" and "-" do not count.'
                )
                self._fault(path, "duplicate_name", message)
            seen.setdefault(key, f'{kind} "{name}"')

    def _check_labels(self) -> None:
        for key, message in words.label_faults(self.model.labels):
            self._fault((*ROOT, "labels", *([key] if key else [])), "label", message)

    def _timeout(self, name: str) -> float | None:
        written = getattr(self.model.timeout, name)
        if written is None:
            return None
        value: float | None = self._parsed(words.seconds, written, (*ROOT, "timeout", name))
        if value is not None and value <= 0:
            self._fault((*ROOT, "timeout", name), "duration", "A timeout must be longer than nothing.")
        return value

    def _parsed(self, parse: Any, text: str, path: Path) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            self._fault(path, "value", str(error))
            return None

    def _resource(self, name: str, model: ResourceModel) -> Resource:
        path = (*ROOT, "resources", name)
        amounts = {
            field_name: self._parsed(words.quantity, written, (*path, field_name)) or ""
            for field_name in ("memory", "storage")
            if (written := getattr(model, field_name))
        }
        topology = tuple(
            Requirement(one.key, one.group, one.requirementType == "required", (*path, "topology", index))
            for index, one in enumerate(model.topology)
        )
        return Resource(
            name=name,
            path=path,
            cpu=model.cpu,
            gpu=model.gpu,
            platform=model.platform,
            nodes_excluded=tuple(model.nodesExcluded),
            topology=topology,
            **amounts,
        )

    def _tasks(self, group: _Group, resources: Mapping[str, Resource]) -> tuple[TaskSpec, ...]:
        leads = [path for task, path in group.tasks if task.lead]
        if len(group.tasks) > 1 and len(leads) != 1:
            message = (
                f'Exactly one task of group "{group.name}" must be the lead; {len(leads)} say lead: true.'
            )
            self._fault((*leads[1], "lead") if leads else group.path, "lead", message)
        return tuple(
            self._task(task, path, resources, lead=task.lead or len(group.tasks) == 1)
            for task, path in group.tasks
        )

    def _task(
        self, task: TaskModel, path: Path, resources: Mapping[str, Resource], *, lead: bool
    ) -> TaskSpec:
        if task.resource not in resources:
            near = difflib.get_close_matches(task.resource, list(resources)[:100], n=1)
            hint = f' Did you mean "{near[0]}"?' if near else ""
            self._fault(
                (*path, "resource"),
                "unknown_resource",
                f'There is no resource "{task.resource}".{hint}',
                allowed=list(resources),
            )
        for name, action in task.exitActions.items():
            self._parsed(lambda text: list(words.exit_codes(text)), action, (*path, "exitActions", name))
        self._note_left_out(task, path)
        return TaskSpec(
            name=task.name,
            path=path,
            image=task.image,
            command=tuple(task.command),
            args=tuple(task.args),
            environment=task.environment,
            files=self._files(task, path),
            privileged=task.privileged,
            host_network=task.hostNetwork,
            volume_mounts=tuple(task.volumeMounts),
            credentials=self._credentials(task, path),
            exit_actions={str(name): codes for name, codes in task.exitActions.items()},
            lead=lead,
            resource=resources.get(task.resource) or resources["default"],
        )

    def _files(self, task: TaskModel, path: Path) -> tuple[File, ...]:
        files = []
        for index, one in enumerate(task.files):
            place = (*path, "files", index)
            if one.contents is None and one.localpath is None:
                self._fault(place, "missing", 'The field "contents" is needed.')
            if one.localpath is not None and not self.allow_localpath:
                message = (
                    "localpath is resolved by the command line before it submits; send contents instead."
                )
                self._fault((*place, "localpath"), "localpath", message)
            if one.base64 and not _is_base64(one.contents or ""):
                self._fault((*place, "contents"), "base64", "The contents are not base64, as base64 says.")
            files.append(File(path=one.path, contents=one.contents or "", base64=one.base64))
        return tuple(files)

    def _credentials(self, task: TaskModel, path: Path) -> dict[str, str | dict[str, str]]:
        checked: dict[str, str | dict[str, str]] = {}
        for name, value in task.credentials.items():
            if isinstance(value, str):
                checked[name] = value
            elif isinstance(value, dict) and all(isinstance(v, str) for v in value.values()):
                checked[name] = {str(key): v for key, v in value.items()}
            else:
                message = "A credential is a directory to mount it at, or a mapping of variables to keys."
                self._fault((*path, "credentials", name), "type", message)
        return checked

    def _upstream(self, group: _Group, home: Mapping[str, str]) -> tuple[str, ...]:
        """The groups this one waits for, in the order they are named; forward references are fine."""
        found: dict[str, None] = {}
        for task, path in group.tasks:
            for index, one in enumerate(task.inputs):
                place = (*path, "inputs", index)
                if (one.task is None) == (one.url is None) and one.dataset is None:
                    self._fault(place, "input", "An input names either a task or a url.")
                if one.task is None:
                    continue
                if ":" in one.task:
                    message = f'Input "{one.task}" names a task of another workflow: this is not carried out.'
                    self.notices.append(Notice("not_carried_out", message, (*place, "task")))
                elif one.task not in home:
                    self._unknown_task(one.task, (*place, "task"), home)
                elif home[one.task] == group.name:
                    message = f'Task "{one.task}" is in the same group; the two start together.'
                    self._fault((*place, "task"), "input", message)
                else:
                    found[home[one.task]] = None
        return tuple(found)

    def _unknown_task(self, name: str, path: Path, home: Mapping[str, str]) -> None:
        near = difflib.get_close_matches(name, list(home)[:1000], n=1)
        hint = f' Did you mean "{near[0]}"?' if near else ""
        self._fault(path, "unknown_task", f'There is no task "{name}".{hint}', allowed=list(home)[:20])

    def _check_cycles(self, groups: Sequence[_Group], upstream: Mapping[str, tuple[str, ...]]) -> None:
        if cycle := find_cycle(upstream):
            path = next(group.path for group in groups if group.name == cycle[0])
            message = f"These groups wait for each other: {' -> '.join(cycle)}."
            self._fault(path, "cycle", message)

    def _note_left_out(self, task: TaskModel, path: Path) -> None:
        for name, meaning in NOT_CARRIED_OUT.items():
            if getattr(task, name):
                message = f'"{name}" of task "{task.name}" is accepted but not carried out: {meaning}.'
                self.notices.append(Notice("not_carried_out", message, (*path, name)))
        urls = [one.url or "dataset" for one in task.inputs if one.task is None]
        if urls:
            message = f'Inputs of task "{task.name}" are not downloaded: {listing(urls, limit=3)}.'
            self.notices.append(Notice("not_carried_out", message, (*path, "inputs")))


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        return False
    return True


def _group(group: GroupModel, path: Path, tasks: tuple[tuple[TaskModel, Path], ...]) -> _Group:
    return _Group(
        group.name,
        path,
        tasks,
        barrier=group.barrier,
        ignore_nonlead_status=group.ignoreNonleadStatus,
        bare=False,
        nvlink=group.nvlink,
    )


def find_cycle(upstream: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """A cycle among groups, its first group repeated at the end; empty if there is none."""
    done: set[str] = set()
    for start in upstream:
        trail: dict[str, Iterator[str]] = {}
        stack = [start] if start not in done else []
        while stack:
            here = stack[-1]
            if here not in trail:
                trail[here] = iter(upstream.get(here, ()))
            following = next(trail[here], None)
            if following is None:
                done.add(here)
                del trail[here]
                stack.pop()
            elif following in trail:
                names = list(trail)
                return (*names[names.index(following) :], following)
            elif following not in done:
                stack.append(following)
    return ()
