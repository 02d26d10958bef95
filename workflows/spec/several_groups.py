"""Requirements that seem to hold over several task groups, and the same workflow with one group.

No requirement reaches over task groups: if one group were pinned to another's domain, two workflows could
each hold a zone that the other needs. Whoever writes the same group of a key into two task groups, or a
topology for the whole workflow, gets the document in which those tasks are one group, ready to copy.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import yaml

from scheduling.errors import Fault, Notice, Path
from scheduling.sentences import listing
from scheduling.topology.requirements import Pair, Requirement
from workflows.spec.syntax import folded_name
from workflows.spec.upstream import find_cycle
from workflows.spec.validation import ROOT
from workflows.spec.workflow_spec import GroupSpec

Json = dict[str, Any]

MERGED = "together"
"""The name of a group made of bare tasks."""

MOST_CHARACTERS = 16 * 1024
"""So long a document is repeated in a message; the workflow keeps the message."""

MOST_PAIRS = 5
MOST_TASKS = 20
"""Tasks that are named where the document is too long to be repeated."""


def shared_by_groups(groups: Sequence[GroupSpec], workflow: Json) -> Iterator[Notice]:
    """Warn of task groups that name the same group of a key; ``workflow`` is as the user wrote it.

    The name that stands for none, ``default``, is each group's own, except among bare tasks.
    """
    sharing = _sharing(groups)
    if not sharing:
        return
    bare = groups[0].bare
    sentences = [_sentence(pair, members, bare=bare) for pair, members in sharing.items()][:MOST_PAIRS]
    form = _OneGroup(groups, workflow, _connected(sharing.values())).text()
    code = "tasks_share_nothing" if bare else "groups_share_nothing"
    path: Path = (*ROOT, "tasks" if bare else "groups")
    yield Notice(code, f"{' '.join(sentences)} {form}", path)


def topology_of_workflow(
    groups: Sequence[GroupSpec], workflow: Json, topology: Sequence[Requirement]
) -> tuple[list[Fault], list[Notice]]:
    """Refuse requirements that stand on the workflow itself; warn where all of them are preferences."""
    if not topology or not groups:
        return [], []
    form = _OneGroup(groups, workflow, [list(groups)], topology=workflow["topology"]).text()
    first = next((requirement for requirement in topology if requirement.required), None)
    if first is None:
        message = "The topology of a workflow itself is not carried out: each task group is placed by itself."
        return [], [Notice("topology_of_workflow", f"{message} {form}", (*ROOT, "topology"))]
    message = (
        f'Key "{first.key}" is required for the whole workflow, but each task group is placed by itself, and '
        "no requirement holds between task groups."
    )
    return [Fault(first.path, "topology_of_workflow", f"{message} {form}")], []


def _sharing(groups: Sequence[GroupSpec]) -> dict[Pair, list[GroupSpec]]:
    """The pairs that tasks of several groups name, with those groups."""
    if len(groups) < 2:
        return {}
    members: dict[Pair, dict[str, GroupSpec]] = {}
    for group in groups:
        for task in group.tasks:
            inherited = () if task.resource.leaves_group_topology else group.topology
            for requirement in (*inherited, *task.resource.topology):
                if group.bare or requirement.group != Requirement(requirement.key).group:
                    members.setdefault((requirement.key, requirement.group), {})[group.name] = group
    return {pair: list(of_pair.values()) for pair, of_pair in members.items() if len(of_pair) > 1}


def _sentence(pair: Pair, groups: Sequence[GroupSpec], *, bare: bool) -> str:
    key, named = pair
    if bare:
        return (
            f'Tasks {listing(group.tasks[0].name for group in groups)} name {key} "{named}", but each task '
            "under `tasks:` is a task group of its own, so the requirement does not hold between them."
        )
    return (
        f'Task groups {listing(group.name for group in groups)} name {key} "{named}", but no requirement '
        "holds between task groups: each is placed by itself."
    )


def _connected(members: Iterable[Sequence[GroupSpec]]) -> list[list[GroupSpec]]:
    """Join lists that have a group in common; each group is in one list, in the order of the document."""
    home: dict[str, dict[str, GroupSpec]] = {}
    for groups in members:
        for group in groups:
            home.setdefault(group.name, {group.name: group})
        largest = max((home[group.name] for group in groups), key=len)
        for group in groups:
            joined = home[group.name]
            if joined is not largest:  # each group moves to a list at least twice as long, so rarely
                largest |= joined
                home |= dict.fromkeys(joined, largest)
    distinct = {id(joined): joined for joined in home.values()}.values()
    return [sorted(joined.values(), key=lambda group: group.path[-1]) for joined in distinct]


@dataclass(slots=True)
class _OneGroup:
    """A workflow in which each of some lists of task groups is one group; ``topology`` is added to it."""

    groups: Sequence[GroupSpec]
    workflow: Json
    merged: Sequence[Sequence[GroupSpec]]
    topology: Sequence[Json] = ()
    resources: Json = field(default_factory=dict)

    def text(self) -> str:
        """What to do: the whole document, or in words where it is too long or does not exist."""
        if self._waits():
            return "They cannot be one task group, because one of them waits for another."
        if not _is_long(self.workflow) and len(document := self._document()) <= MOST_CHARACTERS:
            return f"To place them together, write one task group:\n{document}"
        first = self.merged[0]
        names = [task.name for group in first for task in group.tasks]
        tasks = ", ".join(names[:MOST_TASKS]) + (", ..." if len(names) > MOST_TASKS else "")
        return (
            "To place them together, write one group with all their tasks and `lead: true` on one of them: "
            f"`groups: [{{name: {self._name(first)}, tasks: [{tasks}]}}]`."
        )

    def _waits(self) -> bool:
        home = {group.name: members[0].name for members in self.merged for group in members}
        upstream: dict[str, tuple[str, ...]] = {}
        for group in self.groups:
            name = home.get(group.name, group.name)
            upstream[name] = (*upstream.get(name, ()), *(home.get(u, u) for u in group.upstream))
        return bool(find_cycle(upstream))

    def _document(self) -> str:
        home = {group.name: members for members in self.merged for group in members}
        groups = []
        for group in self.groups:
            members = home.get(group.name)
            if members is None:
                groups.append(self._written(group))
            elif group is members[0]:
                groups.append(self._joined(members))
        workflow = {key: value for key, value in self.workflow.items() if key not in _REPLACED}
        resources = {**(self.workflow.get("resources") or {}), **self.resources}
        workflow |= {"groups": groups, **({"resources": resources} if resources else {})}
        document = {"version": 2, "workflow": workflow}
        return str(
            yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=100)
        )

    def _written(self, group: GroupSpec) -> Json:
        """A group as the user wrote it; a bare task with the group that it is."""
        raw: Json = self.workflow[str(group.path[1])][group.path[2]]
        if not group.bare:
            return raw
        task = {key: value for key, value in raw.items() if key != "recovery"}
        recovery = {"recovery": raw["recovery"]} if "recovery" in raw else {}
        return {"name": group.name, **recovery, "tasks": [task]}

    def _joined(self, members: Sequence[GroupSpec]) -> Json:
        written = [self._written(group) for group in members]
        shared = {
            key: value
            for key, value in written[0].items()
            if key not in {"name", "topology", "tasks"} and all(raw.get(key) == value for raw in written)
        }
        topologies = [raw.get("topology") or [] for raw in written]
        alike = all(topology == topologies[0] for topology in topologies)
        topology = [*self.topology, *(topologies[0] if alike else [])]
        tasks = [
            task if alike else self._moved(task, group, raw)
            for group, raw in zip(members, written, strict=True)
            for task in raw["tasks"]
        ]
        lead = next((place for place, task in enumerate(tasks) if task.get("lead")), 0)
        return {
            "name": self._name(members),
            **shared,
            **({"topology": topology} if topology else {}),
            "tasks": [_led(task, leads=place == lead) for place, task in enumerate(tasks)],
        }

    def _moved(self, task: Json, group: GroupSpec, raw: Json) -> Json:
        """The task with its group's topology in a resource of its own group."""
        name = task.get("resource", "default")
        resource = (self.workflow.get("resources") or {}).get(name) or {}
        if resource.get("topology") == [] or not raw.get("topology"):
            return task
        own = [entry for entry in resource.get("topology") or [] if entry not in raw["topology"]]
        moved = f"{name}-{group.name}"
        self.resources[moved] = {**resource, "topology": [*raw["topology"], *own]}
        return {**task, "resource": moved}

    def _name(self, members: Sequence[GroupSpec]) -> str:
        if not members[0].bare:
            return members[0].name
        names = {folded_name(task.name) for group in self.groups for task in group.tasks}
        names |= {folded_name(group.name) for group in self.groups}
        place = self.merged.index(members) + 1
        numbered = (MERGED if number == 1 else f"{MERGED}-{number}" for number in count(place))
        return next(name for name in numbered if name not in names)


_REPLACED = frozenset({"groups", "tasks", "topology", "resources"})


def _is_long(value: Any) -> bool:
    """Whether a text of the value would have more than some ``MOST_CHARACTERS``, aliases followed."""
    left, stack = MOST_CHARACTERS, [value]
    while stack and left > 0:
        value = stack.pop()
        left -= len(value) if isinstance(value, str) else 5
        if isinstance(value, dict):
            stack += [*value, *value.values()]
        elif isinstance(value, list):
            stack += value
    return left <= 0


def _led(task: Json, *, leads: bool) -> Mapping[str, Any]:
    """A task with ``lead: true`` after its name, or without it."""
    others = {key: value for key, value in task.items() if key not in {"lead", "name"}}
    return {"name": task.get("name"), **({"lead": True} if leads else {}), **others}
