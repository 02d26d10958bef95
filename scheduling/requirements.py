"""What a user wrote about where tasks must or should sit together.

A task's requirements, sorted by level, form its *path* of (key, group) pairs; tasks share a
co-location set at a key when their paths agree up to and including it. Identity is that tuple and
never a joined string: OSMO joins with ``-``, where ``a`` + ``b-c`` and ``a-b`` + ``c`` collide.

A (key, group) pair must stand below the same list of broader keys wherever it occurs in a task group.
Otherwise ``rack: r1``, once below a zone and once below none, could mean one rack or two; guessing
either way would place a gang against somebody's intent, so it is refused with the line to add.
"""

import difflib
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from scheduling.errors import Fault, Notice, Path, in_order, listing
from scheduling.levels import Level, ranks

Pair = tuple[str, str]
"""A key and a group's name."""

SetPath = tuple[Pair, ...]
"""A co-location set's identity: its pairs, broadest first. Empty: the whole task group."""

_SUGGESTED = 100
"""Distinct unknown keys that get a suggestion; comparing words is slow, and nobody reads more."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """Tasks of one task group that name the same key and group share one domain of that key.

    ``path`` is where it stands in the user's document (``("workflow", "resources", "shard",
    "topology", 1)``).
    """

    key: str
    group: str = "default"
    required: bool = True
    path: Path = ()


@dataclass(frozen=True, slots=True)
class GangTask:
    """A task as the core sees it. ``gpus`` counts whole GPUs.

    ``path`` is where the task stands in the user's document.
    """

    name: str
    gpus: int = 0
    requirements: tuple[Requirement, ...] = ()
    path: Path = ()


@dataclass(frozen=True, slots=True)
class Gang:
    """The tasks of one task group: scheduled together or not at all."""

    name: str
    tasks: tuple[GangTask, ...]
    path: Path = ()


def place_of(task: GangTask, index: int) -> Path:
    """Where a task's requirement stands in the document, or would stand had the caller said nothing."""
    return task.requirements[index].path or (*task.path, "topology", index)


def broadest_first(task: GangTask, rank: Mapping[str, int]) -> tuple[Requirement, ...]:
    """A task's requirements in pool order, whatever the order they were written in."""
    return tuple(sorted(task.requirements, key=lambda requirement: rank[requirement.key]))


def describe(path: SetPath) -> str:
    """A set in words, narrowest first: ``rack "r1" in zone "a"``."""
    return " in ".join(f'{key} "{group}"' for key, group in reversed(path)) or "the whole task group"


def check_requirements(gang: Gang, levels: Sequence[Level]) -> list[Fault]:
    """Find everything wrong with a gang's requirements, in document order."""
    faults = list(_faults_of_words(gang, levels))
    rank = ranks(levels)
    sound = [
        (task, broadest_first(task, rank))
        for task in gang.tasks
        if all(r.key in rank for r in task.requirements)
        and len({r.key for r in task.requirements}) == len(task.requirements)
    ]
    faults += _both_required_and_preferred(sound)
    faults += _ambiguous(sound, rank)
    return in_order(faults)


def _faults_of_words(gang: Gang, levels: Sequence[Level]) -> Iterator[Fault]:
    rank = ranks(levels)
    keys = tuple(level.key for level in levels)
    unknown: dict[str, Fault] = {}
    seen: set[tuple[Path, str]] = set()
    for task in gang.tasks:
        first: dict[str, int] = {}
        for i, requirement in enumerate(task.requirements):
            where = place_of(task, i)
            if first.setdefault(requirement.key, i) != i:
                yield Fault(
                    (*where, "key"),
                    "duplicate_key",
                    f'Key "{requirement.key}" stands twice in task "{task.name}": a task belongs to one '
                    "group of a key.",
                )
            if (where, requirement.key) in seen:
                continue
            seen.add((where, requirement.key))
            if requirement.key not in rank:
                yield _unknown_key(requirement.key, keys, (*where, "key"), known=unknown)
            yield from _group_faults(requirement.group, (*where, "group"))


def _unknown_key(key: str, keys: tuple[str, ...], path: Path, *, known: dict[str, Fault]) -> Fault:
    if key not in known:
        near = difflib.get_close_matches(key[:63], keys, n=1) if len(known) < _SUGGESTED else []
        said = f'The pool has no topology key "{key[:63]}".'
        if near:
            said += f' Did you mean "{near[0]}"?'
        said += (
            f" Its keys, broadest first: {', '.join(keys)}." if keys else " It has no topology keys at all."
        )
        known[key] = Fault(path, "unknown_key", said, allowed=keys)
    fault = known[key]
    return Fault(path, fault.code, fault.message, allowed=fault.allowed)


def _group_faults(group: str, path: Path) -> Iterator[Fault]:
    if not group.strip():
        yield Fault(path, "empty_group", "A group's name cannot be empty.")
    elif not group.isprintable():
        yield Fault(
            path,
            "unprintable_group",
            f"Group {group[:63]!a} holds characters that cannot be printed; letters of any language, digits, "
            "signs and spaces are fine.",
        )


def check_apart(gangs: Sequence[Gang]) -> list[Notice]:
    """Warn where tasks of different task groups name one set: nothing holds between groups.

    For gangs of one task each, as a bare ``tasks:`` list gives.
    """
    naming: dict[Pair, list[GangTask]] = defaultdict(list)
    for gang in gangs:
        for task in gang.tasks:
            for requirement in task.requirements:
                naming[requirement.key, requirement.group].append(task)
    return [
        Notice(
            "sets_across_groups",
            f'{_tasks(iter(tasks)).capitalize()} all name {key} "{group}", but each task under `tasks:` is a '
            "task group of its own, and nothing holds between task groups. To keep them together write "
            f"`groups: [{{name: together, tasks: [{', '.join(task.name for task in tasks[:3])}, ...]}}]`.",
            tasks[0].path,
        )
        for (key, group), tasks in naming.items()
        if len(tasks) > 1
    ]


_Sorted = Sequence[tuple[GangTask, tuple[Requirement, ...]]]


def _both_required_and_preferred(tasks: _Sorted) -> Iterator[Fault]:
    """One set cannot be both: whichever was written first would silently win."""
    kinds: dict[SetPath, dict[bool, list[tuple[GangTask, Requirement]]]] = {}
    for task, requirements in tasks:
        path: SetPath = ()
        for requirement in requirements:
            path = (*path, (requirement.key, requirement.group))
            by_kind = kinds.setdefault(path, {})
            by_kind.setdefault(requirement.required, []).append((task, requirement))
    for path, by_kind in kinds.items():
        if len(by_kind) == 2:
            task, requirement = by_kind[False][0]
            yield Fault(
                (*_written_at(task, requirement), "requirementType"),
                "required_and_preferred",
                f"{describe(path)} is required by {_tasks(t for t, _ in by_kind[True])} but preferred by "
                f"{_tasks(t for t, _ in by_kind[False])}: write the same for all of them.",
                allowed=("required", "preferred"),
            )


def _ambiguous(tasks: _Sorted, rank: Mapping[str, int]) -> Iterator[Fault]:
    """A (key, group) below different lists of broader keys could be one domain or two."""
    below: dict[Pair, dict[tuple[str, ...], list[tuple[GangTask, Requirement]]]] = defaultdict(dict)
    example: dict[Pair, dict[str, Requirement]] = defaultdict(dict)
    for task, requirements in tasks:
        broader: tuple[str, ...] = ()
        for i, requirement in enumerate(requirements):
            pair = (requirement.key, requirement.group)
            below[pair].setdefault(broader, []).append((task, requirement))
            for above in requirements[:i]:
                example[pair].setdefault(above.key, above)
            broader = (*broader, requirement.key)
    for pair, lists in below.items():
        if len(lists) > 1:
            yield from _ambiguity_faults(pair, lists, example[pair], rank)


def _ambiguity_faults(
    pair: Pair,
    lists: Mapping[tuple[str, ...], Sequence[tuple[GangTask, Requirement]]],
    example: Mapping[str, Requirement],
    rank: Mapping[str, int],
) -> Iterator[Fault]:
    everything = sorted(example, key=lambda key: rank[key])
    sightings = "; ".join(
        f"below {' and '.join(broader) or 'no broader key'} in {_tasks(t for t, _ in members)}"
        for broader, members in sorted(lists.items())
    )
    for broader, members in lists.items():
        missing = [example[key] for key in everything if key not in broader]
        if not missing:
            continue
        task, requirement = members[0]
        lines = " and ".join(_line(one) for one in missing)
        yield Fault(
            _written_at(task, requirement),
            "ambiguous_group",
            f'{pair[0]} "{pair[1]}" stands {sightings}, so it could be one {pair[0]} or several. '
            f"Add {lines} to {_tasks(t for t, _ in members)}, or give one of them another group name.",
        )


def _written_at(task: GangTask, requirement: Requirement) -> Path:
    return place_of(task, task.requirements.index(requirement))


def _tasks(tasks: Iterator[GangTask]) -> str:
    names = [task.name for task in tasks]
    return ("task " if len(names) == 1 else "tasks ") + listing(names)


def _line(requirement: Requirement) -> str:
    """The requirement as a line of YAML."""
    plain = re.fullmatch(r"[A-Za-z][\w-]*", requirement.group, re.ASCII)
    group = requirement.group if plain else json.dumps(requirement.group, ensure_ascii=False)
    kind = "" if requirement.required else ", requirementType: preferred"
    return f"`- {{key: {requirement.key}, group: {group}{kind}}}`"
