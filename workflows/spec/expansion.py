"""A workflow without ``count`` and ``segment``: the plain document of the same tasks, in OSMO's grammar.

Each task is an entry of its own, each segment a resource spec with its topology, and the variables by which
containers know their place stand in ``environment``. A group's own topology, which OSMO does not have either,
is written into the resource specs of its tasks. Groups stand after those they wait for, and of what begins
like a template only those characters are raw text: OSMO reads neither the other order, nor raw text around
the document or its tokens. The objects that are rendered of both documents are equal.
Other words that OSMO does not know (``recovery``, ``nvlink``, ``terminationGracePeriodSeconds``,
``RESTART_GROUP``, ``waitSeconds``, ``auto``) have no spelling there and stay as they are.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import yaml

from scheduling.errors import Path
from scheduling.topology.requirements import Requirement, repeats
from workflows.spec.entries import INDEX
from workflows.spec.marks import DEFERRED
from workflows.spec.upstream import upstream_first
from workflows.spec.workflow_spec import GroupSpec, Resource, TaskSpec, WorkflowSpec
from workflows.values.counted import place_variables

Json = dict[str, Any]

_TEXTS = ("command", "args")
_MARK = re.compile(rf"({DEFERRED.pattern})|\{{[{{%#]")
_OF_WORKFLOW = frozenset({"groups", "tasks", "resources"})
_OF_GROUP = frozenset({"tasks", "topology", "segment"})
_OF_TASK = frozenset({"name", "count", "segment", "lead", "resource", "environment", "files", *_TEXTS})


def expanded_text(spec: WorkflowSpec, data: Json) -> str:
    """The plain document of a workflow without faults; ``data`` is its own document as parsed."""
    document = {key: value for key, value in data.items() if key != "default-values"}
    document["workflow"] = _Expansion(spec, data["workflow"]).workflow()
    text = str(yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=110))
    return _MARK.sub(lambda mark: mark[1] or f"{{% raw %}}{mark[0]}{{% endraw %}}", text)


@dataclass(slots=True)
class _Expansion:
    """One expansion; ``resources`` are those that its tasks use so far, by their new names."""

    spec: WorkflowSpec
    written: Json
    resources: Json = field(default_factory=dict)
    in_groups: bool = True
    _files_of: dict[Path, list[Json]] = field(default_factory=dict)
    _new_names: dict[tuple[str, tuple[Requirement, ...]], str] = field(default_factory=dict)

    def workflow(self) -> Json:
        by_name = {group.name: group for group in self.spec.groups}
        order = upstream_first({name: group.upstream for name, group in by_name.items()})
        groups = [by_name[name] for name in order]
        self.in_groups = not groups[0].bare or any(task.counted for group in groups for task in group.tasks)
        if not self.in_groups:
            entries = {"tasks": [task for group in groups for task in self._tasks(group)]}
        else:
            entries = {"groups": [self._group(group) for group in groups]}
        others = {key: value for key, value in self.written.items() if key not in _OF_WORKFLOW}
        return {**others, **entries, **({"resources": self.resources} if self.resources else {})}

    def _group(self, group: GroupSpec) -> Json:
        raw = self._raw(group.path)
        if group.bare:
            recovery = {"recovery": raw["recovery"]} if "recovery" in raw else {}
            own = {"name": group.name, **recovery, **({"nvlink": False} if group.nvlink is False else {})}
        else:
            own = {key: value for key, value in raw.items() if key not in _OF_GROUP}
        return {**own, "tasks": list(self._tasks(group))}

    def _tasks(self, group: GroupSpec) -> Iterator[Json]:
        lead = next(task.name for task in group.tasks if task.lead)
        for rank, task in enumerate(group.tasks):
            raw = self._raw(task.path)
            place = place_variables(
                task.name, task.counted, rank=rank, size=len(group.tasks), lead_host=f"{{{{host:{lead}}}}}"
            )
            variables = {
                name for use in task.credentials.values() if not isinstance(use, str) for name in use
            }
            environment = {
                **{name: text for name, text in place.items() if name not in {*task.environment, *variables}},
                **{name: _indexed(task, text) for name, text in task.environment.items()},
            }
            texts = {kind: [_indexed(task, text) for text in getattr(task, kind)] for kind in _TEXTS}
            others = {key: value for key, value in raw.items() if key not in _OF_TASK}
            others |= {"files": files} if (files := self._files(task, raw)) else {}
            if self.in_groups and group.bare:
                others.pop("recovery", None)  # it stands beside the tasks of a group
            yield {
                "name": task.name,
                **({"lead": True} if task.lead and len(group.tasks) > 1 else {}),
                **{key: texts[key] for key in _TEXTS if texts[key]},
                "environment": environment,
                "resource": self._resource(group, task.resource),
                **others,
            }

    def _files(self, task: TaskSpec, raw: Json) -> list[Json]:
        """The files of a task, once for all tasks of its entry, which YAML then writes once."""
        if task.path not in self._files_of:
            written = raw.get("files") or []
            self._files_of[task.path] = [
                {**file, "contents": own.contents} if "contents" in file else file
                for file, own in zip(written, task.files, strict=True)
            ]
        return self._files_of[task.path]

    def _resource(self, group: GroupSpec, resource: Resource) -> str:
        """The name of the resource spec with all requirements of a task, made where there is none yet."""
        above = () if resource.leaves_group_topology else group.topology
        own = (each for each in resource.topology if not any(repeats(each, other) for other in above))
        topology = (*above, *own)
        key = (resource.name, topology)
        if key not in self._new_names:
            written: Json = (self.written.get("resources") or {}).get(resource.name) or {}
            used = self.resources.keys() | (self.written.get("resources") or {}).keys()
            name = resource.name
            if name in self.resources:
                name = next(n for i in count(1) if (n := f"{resource.name}-{i}") not in used)
            self._new_names[key] = name
            entries = {"topology": [_entry(each) for each in topology]} if topology else {}
            self.resources[name] = {**{k: v for k, v in written.items() if k != "topology"}, **entries}
        return self._new_names[key]

    def _raw(self, path: Path) -> Json:
        value: Any = {"workflow": self.written}
        for step in path:
            value = value[step]
        raw: Json = value
        return raw


def _indexed(task: TaskSpec, text: str) -> str:
    counted = task.counted
    return INDEX.sub(str(counted.index(task.name)), text) if counted and "{{" in text else text


def _entry(requirement: Requirement) -> Json:
    """A requirement as it is written."""
    group = {"group": requirement.group} if requirement.group != Requirement(requirement.key).group else {}
    kind = {"requirementType": requirement.kind} if requirement.kind != "required" else {}
    wait = {} if requirement.wait_seconds is None else {"waitSeconds": requirement.wait_seconds}
    return {"key": requirement.key, **group, **kind, **wait}
