"""From models to values: references resolved, names compared, every fault collected.

Resolution goes on after a fault; the values then serve only to find more faults. Work per fault is bounded:
a suggestion compares names, and a document in which everything is wrong must not cost the square of its
size.
"""

import base64
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import Any, TypeVar

from pools.values.durations import parse_duration
from pools.values.exit_codes import exit_codes
from pools.values.images import image_fault
from pools.values.news_targets import WAITS_AFTER
from pools.values.recovery_words import RecoveryWords, read_words
from scheduling.errors import Fault, Notice, Path
from scheduling.sentences import did_you_mean
from scheduling.topology.requirements import Requirement
from scheduling.topology.segments import task_name
from workflows.spec import syntax
from workflows.spec.entries import HOST, INDEX, TaskNames, index_clashes, segments_of, tasks_of
from workflows.spec.grammar import (
    GroupModel,
    RecoveryModel,
    ResourceModel,
    TaskModel,
    TopologyEntry,
    WorkflowModel,
)
from workflows.spec.limits import SpecLimits
from workflows.spec.upstream import find_cycle
from workflows.spec.validation import ROOT
from workflows.spec.workflow_spec import GroupSpec, Resource, TaskSpec
from workflows.values.placement import File

DATA = re.compile(r"\{\{\s*(?:output\s*|input:[^{}]*)\}\}")
NOT_CARRIED_OUT = {
    "inputs": "no data is downloaded; only the order of tasks is kept",
    "outputs": "results are not uploaded",
    "kpis": "KPIs are not collected",
    "downloadType": "no data is downloaded",
    "cacheSize": "there is no cache",
    "checkpoint": "checkpoints are not uploaded",
    "resources": "the resources of a task are those of the entry that `resource` names",
    "backend": "the pool of the request decides the backend",
    "hosts of other groups": "{{host:...}} stays as it is, since hosts have names only in their own group",
    "tokens of data": "{{input:...}} and {{output}} stay as they are, since no data is transferred",
    "tasks of other workflows": "a workflow waits only for tasks of its own",
}
_WITHOUT_INDEX = ("credentials", "volumeMounts", "inputs", "outputs", "kpis", "checkpoint")
"""The fields of a task whose texts have no ``{{task_index}}``, but could be written with one."""

SUGGESTIONS = 20
"""Most faults with a suggestion; comparing names is slow, and nobody reads more."""

NAMED = 20
"""Most names that a fault lists as allowed."""

Value = TypeVar("Value")


@dataclass(slots=True)
class Resolver:
    """One workflow's resolution; ``faults`` and ``left_out`` fill as it goes."""

    workflow: WorkflowModel
    group_models: Sequence[GroupModel]
    resource_models: Mapping[str, ResourceModel]
    limits: SpecLimits
    allow_localpath: bool
    faults: list[Fault] = field(default_factory=list)
    left_out: dict[str, list[Path]] = field(default_factory=dict)
    _names: TaskNames = field(default_factory=lambda: TaskNames(()))
    _resources: dict[str, Resource] = field(default_factory=dict)
    _recovery: tuple[RecoveryWords, ...] = ()
    _images: dict[str, str | None] = field(default_factory=dict)
    _suggested: int = 0

    def groups(self) -> tuple[GroupSpec, ...]:
        """Build the groups; meaningful only if no fault was found."""
        groups = self.group_models
        self._check_names()
        self._check_labels()
        self._names = TaskNames(groups)
        self._resources = {name: self._resource(name, model) for name, model in self.resource_models.items()}
        if not self._resources:
            self._resources["default"] = Resource(name="default", path=(*ROOT, "resources", "default"))
        self._recovery = self._recovery_words(self.workflow.recovery, (*ROOT, "recovery"))
        upstream = {group.name: self._upstream(group) for group in groups}
        self._check_dependencies(upstream)
        self._check_cycles(upstream)
        specs = (self._group(group, upstream[group.name]) for group in groups)
        return tuple(spec for spec in specs if spec.tasks)

    def timeout(self, name: str) -> float | None:
        """A timeout of the workflow in seconds, None where it says none."""
        text = getattr(self.workflow.timeout, name)
        return self._parsed(parse_duration, text, (*ROOT, "timeout", name)) if text is not None else None

    def notify(self) -> tuple[Mapping[str, Any], ...]:
        """The targets of the workflow's news."""
        return tuple(
            {
                "webhook": model.webhook,
                "email": model.email,
                "kinds": list(model.kinds),
                "waits_after": parse_duration(model.waits_after) if model.waits_after else WAITS_AFTER,
            }
            for model in self.workflow.notify
        )

    def topology(self) -> tuple[Requirement, ...]:
        """The requirements that stand on the workflow itself."""
        return _requirements(self.workflow.topology, ROOT)

    def notices(self) -> Iterator[Notice]:
        """Warn of what is accepted but not carried out, each kind once."""
        for name, paths in self.left_out.items():
            count = f" in {len(paths)} places" if len(paths) > 1 else ""
            message = f'"{name}" is accepted but not carried out{count}: {NOT_CARRIED_OUT[name]}.'
            yield Notice("not_carried_out", message, paths[0])

    def _fault(
        self, path: Path, code: str, message: str | None, *, allowed: Sequence[str] | None = None
    ) -> None:
        """Collect a fault, unless the message is None or there are too many faults already."""
        if message is not None and len(self.faults) < self.limits.faults:
            names = tuple(allowed) if allowed is not None else None
            self.faults.append(Fault(path, code, message, allowed=names))

    def _leave_out(self, name: str, path: Path) -> None:
        self.left_out.setdefault(name, []).append(path)

    def _unknown(self, path: Path, kind: str, name: str, names: Collection[str], *, hint: str = "") -> None:
        if len(self.faults) >= self.limits.faults:
            return
        if not hint and self._suggested < SUGGESTIONS:
            self._suggested += 1
            hint = did_you_mean(name, list(islice(names, 1000)))
        if kind == "resource" and name == "default":
            hint = " Name an entry of `resources` with `resource:`, or add an entry called default."
        message = f"There is no {kind} {syntax.quoted(name)}.{hint}"
        self._fault(path, f"unknown_{kind}", message, allowed=list(islice(names, NAMED)))

    def _parsed(self, parse: Callable[[str], Value], text: str, path: Path) -> Value | None:
        try:
            return parse(text)
        except ValueError as error:
            self._fault(path, "value", str(error))
            return None

    def _check_names(self) -> None:
        workflow = self.workflow
        self._fault((*ROOT, "name"), "name", syntax.name_fault(workflow.name))
        if workflow.groups and workflow.tasks:
            message = "A workflow has either groups or tasks, not both."
            self._fault((*ROOT, "tasks"), "groups_and_tasks", message)
        elif not (workflow.groups or workflow.tasks):
            self._fault(ROOT, "no_tasks", "A workflow has at least one group or task.")
        owners: dict[str, tuple[str, str]] = {}
        for group in self.group_models:
            if group.bare:
                self._check_unique(group.name, group.path, "group", owners)
            else:
                self._check_name(group.name, group.path, "group", owners)
            for task in group.tasks:
                self._check_name(task.name, task.path, "task", owners)
                self._check_last_name(task)
                if syntax.folded_name(task.name) in syntax.RESERVED_TASKS:
                    message = f"No task may be called {syntax.quoted(task.name)}."
                    self._fault((*task.path, "name"), "name", message)

        for fault in index_clashes(self.group_models):
            self._fault(fault.path, fault.code, fault.message)

    def _check_last_name(self, task: TaskModel) -> None:
        """Check that the longest name that a count makes is not too long."""
        last = task_name(task.name, (task.count or 1) - 1)
        if task.count and len(task.name) <= syntax.MAX_NAME < len(last):
            message = (
                f"Its last task is {syntax.quoted(last)}, a name of {len(last)} characters; at most "
                f"{syntax.MAX_NAME} are accepted."
            )
            self._fault((*task.path, "name"), "name", message)

    def _check_name(self, name: str, path: Path, kind: str, owners: dict[str, tuple[str, str]]) -> None:
        wrong = syntax.name_fault(name)
        self._fault((*path, "name"), "name", wrong)
        if wrong is None:
            self._check_unique(name, (*path, "name"), kind, owners)

    def _check_unique(self, name: str, path: Path, kind: str, owners: dict[str, tuple[str, str]]) -> None:
        own = (kind, name)
        other = owners.setdefault(syntax.folded_name(name), own)
        if other is not own:
            first, second = (f"{of} {syntax.quoted(named)}" for of, named in (own, other))
            if own == other:
                message = f"Two {kind}s have the name {syntax.quoted(name)}."
            else:
                message = (
                    f'The {first} and the {second} have the same name; case does not count, nor "_" for "-".'
                )
            if name.endswith("-group") or second.endswith('-group"'):
                message += " A task under `tasks:` is in a group of its own, called <task>-group."
            self._fault(path, "duplicate_name", message)

    def _check_labels(self) -> None:
        for key, message in syntax.label_faults(self.workflow.labels):
            self._fault((*ROOT, "labels", *([key] if key is not None else [])), "label", message)

    def _resource(self, name: str, model: ResourceModel) -> Resource:
        path = (*ROOT, "resources", name)
        amounts = {
            kind: self._parsed(syntax.quantity, text, (*path, kind)) or ""
            for kind in ("memory", "storage")
            if (text := getattr(model, kind))
        }
        for index, node in enumerate(model.nodesExcluded):
            self._fault((*path, "nodesExcluded", index), "value", syntax.node_fault(node))
        return Resource(
            name=name,
            path=path,
            cpu=model.cpu,
            gpu=model.gpu,
            platform=model.platform,
            nodes_excluded=model.nodesExcluded,
            topology=_requirements(model.topology or (), path),
            leaves_group_topology=model.topology == (),
            **amounts,
        )

    def _group(self, group: GroupModel, upstream: tuple[str, ...]) -> GroupSpec:
        leads = [task.path for task in group.tasks if task.lead]
        if len(group.tasks) > 1 and len(leads) != 1 and group.complete:
            count = f"{len(leads)} tasks have" if leads else "no task has"
            message = (
                f"Exactly one task of group {syntax.quoted(group.name)} must be the lead, but {count} "
                "`lead: true`."
            )
            self._fault((*leads[1], "lead") if leads else group.path, "lead", message)
        segments, faults = segments_of(group)
        for fault in faults:
            self._fault(fault.path, fault.code, fault.message, allowed=fault.allowed)
        return GroupSpec(
            name=group.name,
            path=group.path,
            barrier=group.barrier,
            asks_barrier=group.barrier and "barrier" in group.model_fields_set,
            ignore_nonlead_status=group.ignoreNonleadStatus,
            tasks=tuple(
                spec
                for task in group.tasks
                if (entry := self._task(task, lead=task.lead or len(group.tasks) == 1))
                for spec in (
                    tasks_of(entry, task.name, task.count, segments.get(task.name)) if task.count else [entry]
                )
            ),
            upstream=upstream,
            bare=group.bare,
            nvlink=_group_nvlink(group),
            topology=_requirements(group.topology, group.path),
            leaves_default="topology" in group.model_fields_set and not group.topology,
            recovery=(*self._recovery, *self._recovery_of(group)),
        )

    def _recovery_of(self, group: GroupModel) -> tuple[RecoveryWords, ...]:
        """What a group says of recovery; a task under ``tasks:`` says it for its own group."""
        if group.bare:
            task = group.tasks[0]
            return self._recovery_words(task.recovery, (*task.path, "recovery"))
        for task in group.tasks:
            if task.recovery is not None:
                message = "A group recovers as a whole: write `recovery` beside its `tasks`, not in a task."
                self._fault((*task.path, "recovery"), "recovery_of_task", message)
        return self._recovery_words(group.recovery, (*group.path, "recovery"))

    def _recovery_words(self, model: RecoveryModel | None, path: Path) -> tuple[RecoveryWords, ...]:
        if model is None:
            return ()
        words, _ = read_words(model.model_dump(exclude_none=True), path=path)
        return (words,)

    def _task(self, task: TaskModel, *, lead: bool) -> TaskSpec | None:
        """The task; None if its resource spec does not exist."""
        path = task.path
        resource = self._resources.get(task.resource)
        if resource is None:
            self._unknown((*path, "resource"), "resource", task.resource, self._resources)
        self._fault((*path, "image"), "image", self._image_fault(task.image))
        self._check_tokens(task, path)
        self._note_left_out(task, path)
        spec = TaskSpec(
            name=task.name,
            path=path,
            image=task.image,
            command=tuple(map(self._names.with_hosts, task.command)),
            args=tuple(map(self._names.with_hosts, task.args)),
            environment={name: self._names.with_hosts(text) for name, text in task.environment.items()},
            files=self._files(task, path),
            privileged=task.privileged,
            host_network=task.hostNetwork,
            volume_mounts=task.volumeMounts,
            credentials=self._credentials(task, path),
            exit_actions=self._exit_actions(task, path),
            lead=lead,
            nvlink=task.nvlink,
            grace_period=task.terminationGracePeriodSeconds or 0,
            resource=resource or Resource(name=task.resource, path=path),
        )
        for name in task.environment:
            self._fault((*path, "environment", name), "variable", syntax.variable_fault(name))
        self._check_mounts(spec)
        return spec if resource else None

    def _image_fault(self, image: str) -> str | None:
        """The fault of an image, which many tasks of a document have in common."""
        if image not in self._images:
            self._images[image] = image_fault(image)
        return self._images[image]

    def _exit_actions(self, task: TaskModel, path: Path) -> dict[str, str]:
        if not task.exitActions:
            return {}
        place = (*path, "exitActions")
        parsed = {
            str(name): ranges
            for name, text in task.exitActions.items()
            if (ranges := self._parsed(exit_codes, text, (*place, name)))
        }
        if clash := syntax.shared_exit_code(parsed):
            first, second, code = clash
            message = f"Exit code {code} stands under both {first} and {second}. Write it under one of them."
            self._fault((*place, second), "value", message)
        return {name: syntax.exit_codes_text(ranges) for name, ranges in parsed.items()}

    def _files(self, task: TaskModel, path: Path) -> tuple[File, ...]:
        files = []
        for index, file in enumerate(task.files):
            place = (*path, "files", index)
            self._fault((*place, "path"), "path", syntax.mount_path_fault(file.path))
            if file.contents is None and file.localpath is None:
                self._fault(place, "missing", 'The field "contents" is needed.')
            if file.localpath is not None and not self.allow_localpath:
                message = (
                    "The field localpath is accepted by the command line alone, which reads the file before "
                    "it submits. Send contents instead."
                )
                self._fault((*place, "localpath"), "localpath", message)
            if file.base64 and not _is_base64(file.contents or ""):
                message = "The contents are not base64, though `base64: true` says so."
                self._fault((*place, "contents"), "base64", message)
            contents = file.contents or ""
            contents = contents if file.base64 else self._names.with_hosts(contents)
            files.append(File(path=file.path, contents=contents, base64=file.base64))
        return tuple(files)

    def _credentials(self, task: TaskModel, path: Path) -> dict[str, str | dict[str, str]]:
        checked: dict[str, str | dict[str, str]] = {}
        for name, use in task.credentials.items():
            place = (*path, "credentials", name)
            self._fault(place, "credential", syntax.credential_fault(name))
            if isinstance(use, str):
                self._fault(place, "path", syntax.mount_path_fault(use))
                checked[name] = use
            elif isinstance(use, dict) and use and all(isinstance(key, str) for key in use.values()):
                for variable, key in use.items():
                    wrong = syntax.variable_fault(variable) or syntax.secret_key_fault(key)
                    self._fault((*place, variable), "variable", wrong)
                checked[name] = dict(use)
            else:
                message = "A credential needs a directory to mount it at, or a mapping of variables to keys."
                variables = use if isinstance(use, dict) else {}
                first = [name for name, key in variables.items() if not isinstance(key, str)][:1]
                self._fault((*place, *first), "type", message, allowed=("/mount/path", "{VARIABLE: key}"))
        return checked

    def _check_mounts(self, task: TaskSpec) -> None:
        """Check that each mount is well written and no two share a path, which no API server accepts."""
        for index, mount in enumerate(task.volume_mounts):
            self._fault((*task.path, "volumeMounts", index), "path", syntax.mount_fault(mount))
        targets: set[str] = set()
        for target, path in _targets(task):
            if (normal := syntax.normal_path(target)) in targets:
                message = f"The path {syntax.quoted(target)} is used by another mount, file or credential."
                self._fault(path, "mounted_twice", message)
            targets.add(normal)

    def _check_tokens(self, task: TaskModel, path: Path) -> None:
        """Check that hosts that tokens name exist, and collect the tokens that stand for data."""
        for text, place in _texts_with_tokens(task, path):
            for name in HOST.findall(text):
                home = self._names.home(name)
                if home is None:
                    self._unknown(place, "task", name, self._names, hint=self._names.beyond(name))
                elif home != self._names.home(task.name):
                    self._leave_out("hosts of other groups", place)
            if INDEX.search(text):
                self._fault(place, "task_index", _index_fault(task, in_file="files" in place))
            if DATA.search(text):
                self._leave_out("tokens of data", place)
        without = {name for name in _WITHOUT_INDEX if getattr(task, name)}
        for text, place in _texts_in(task.model_dump(include=without), path) if without else ():
            if INDEX.search(text) and place[-1] != "task":
                message = "{{task_index}} is filled in only in command, args and environment."
                self._fault(place, "task_index", message)

    def _upstream(self, group: GroupModel) -> tuple[str, ...]:
        """The groups this group waits for, in the order they are named; forward references are allowed."""
        upstream: dict[str, None] = {}
        for task in group.tasks:
            for index, source in enumerate(task.inputs):
                place = (*task.path, "inputs", index)
                if sum(origin is not None for origin in (source.task, source.url, source.dataset)) != 1:
                    message = "An input names either a task or a url."
                    self._fault(place, "input", message, allowed=("task", "url"))
                if source.task is not None and (home := self._home_of(source.task, (*place, "task"), group)):
                    upstream[home] = None
        return tuple(upstream)

    def _home_of(self, name: str, place: Path, group: GroupModel) -> str | None:
        """The group of a task that input comes from; None if ``group`` does not wait for it."""
        home = self._names.home(name)
        if tasks := self._names.all_of(name):
            message = f"{syntax.quoted(name)} has a count and means {tasks}. Name one of them."
            self._fault(place, "input", message)
            return None
        if home == group.name:
            message = (
                f"Task {syntax.quoted(name)} is in the same group, whose tasks all start together. Name "
                "a task of another group."
            )
            self._fault(place, "input", message)
            return None
        if home is None and ":" in name:
            self._leave_out("tasks of other workflows", place)
        elif home is None:
            self._unknown(place, "task", name, self._names, hint=self._names.beyond(name))
        return home

    def _check_dependencies(self, upstream: Mapping[str, tuple[str, ...]]) -> None:
        """Bound how many pairs of a group and one that it waits for there are, at the first pair too many."""
        most, total = self.limits.dependencies, sum(map(len, upstream.values()))
        if total <= most:
            return
        counts = accumulate(len(upstream[group.name]) for group in self.group_models)
        crossing = next(group for group, count in zip(self.group_models, counts, strict=True) if count > most)
        task = next(task for task in crossing.tasks if task.inputs)
        message = (
            f"The workflow has {total:,} dependencies, one for each task group and each group that it waits "
            f"for; at most {most:,} are accepted, and the limit is exceeded here. Let many groups wait for "
            "one group that waits for the others."
        )
        self._fault((*task.path, "inputs"), "too_many_dependencies", message, allowed=(str(most),))

    def _check_cycles(self, upstream: Mapping[str, tuple[str, ...]]) -> None:
        if cycle := find_cycle(upstream):
            path = next(group.path for group in self.group_models if group.name == cycle[0])
            names = cycle if len(cycle) <= 9 else (*cycle[:4], "...", *cycle[-4:])
            self._fault(path, "cycle", f"These groups wait for each other: {' -> '.join(names)}.")

    def _note_left_out(self, task: TaskModel, path: Path) -> None:
        for name in (
            "inputs",
            "outputs",
            "kpis",
            "downloadType",
            "cacheSize",
            "checkpoint",
            "resources",
            "backend",
        ):
            if getattr(task, name):
                self._leave_out(name, (*path, name))


def _index_fault(task: TaskModel, *, in_file: bool) -> str | None:
    """The fault of ``{{task_index}}`` in a text of a task."""
    if in_file:
        return (
            "{{task_index}} is not filled in here, since all tasks of an entry share its files: let the "
            "program read the variable OSMO_TASK_INDEX."
        )
    return None if task.count else "{{task_index}} is the index of a task with `count`, and this has none."


def _group_nvlink(group: GroupModel) -> bool | None:
    """The ``nvlink`` of a group; a task under ``tasks:`` speaks for its group, too, when it says false."""
    if group.bare and group.tasks[0].nvlink is False:
        return False
    return group.nvlink


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        return False
    return True


def _targets(task: TaskSpec) -> Iterator[tuple[str, Path]]:
    """Every path at which something is mounted in the task's container, and where the spec names it."""
    for index, file in enumerate(task.files):
        yield file.path, (*task.path, "files", index, "path")
    for name, use in task.credentials.items():
        if isinstance(use, str):
            yield use, (*task.path, "credentials", name)
    for index, mount in enumerate(task.volume_mounts):
        source, _, target = mount.partition(":")
        yield target or source, (*task.path, "volumeMounts", index)


def _texts_with_tokens(task: TaskModel, path: Path) -> Iterator[tuple[str, Path]]:
    """The texts that may have tokens to be replaced, and their paths."""
    for name in ("command", "args"):
        for index, text in enumerate(getattr(task, name)):
            if "{{" in text:
                yield text, (*path, name, index)
    for name, text in task.environment.items():
        if "{{" in text:
            yield text, (*path, "environment", name)
    for index, file in enumerate(task.files):
        for name in ("path", "contents"):
            if (text := getattr(file, name)) and "{{" in text:
                yield text, (*path, "files", index, name)


def _texts_in(value: Any, path: Path) -> Iterator[tuple[str, Path]]:
    """The texts in a value of a document, and their paths."""
    if isinstance(value, str):
        yield value, path
    elif isinstance(value, dict):
        for name, member in value.items():
            yield from _texts_in(member, (*path, name))
    elif isinstance(value, list | tuple):
        for index, member in enumerate(value):
            yield from _texts_in(member, (*path, index))


def _requirements(entries: Sequence[TopologyEntry], path: Path) -> tuple[Requirement, ...]:
    """The requirements of the ``topology`` below ``path``, in the user's order."""
    return tuple(
        Requirement.written(
            entry.key,
            group=entry.group,
            word=entry.requirementType,
            wait_seconds=entry.waitSeconds,
            path=(*path, "topology", index),
        )
        for index, entry in enumerate(entries)
    )
