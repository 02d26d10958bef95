"""Every fault in a gang's requirements, found at once.

A (key, group) pair must be below the same list of broader keys wherever it occurs in a task group. Otherwise
``rack: r1``, once below a zone and once below none, could mean one rack or two; either guess might place a
gang against its author's intent, so the spec is refused with the line to add. For the same reason a set has
one type and one ``waitSeconds``, and a task whose group has a topology of its own may name only narrower
keys.
"""

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from scheduling.errors import Fault, Path, in_order
from scheduling.sentences import did_you_mean, in_seconds, listing, plural
from scheduling.topology.levels import Level, ranks
from scheduling.topology.requirements import (
    Gang,
    GangTask,
    Pair,
    Requirement,
    SetPath,
    broadest_first,
    describe,
    effective,
    place_in_group,
    place_of,
    repeats,
)

_SUGGESTED = 100
"""Distinct unknown keys that get a suggestion; comparing words is slow, and no reader needs more."""


def check_requirements(gang: Gang, levels: Sequence[Level]) -> list[Fault]:
    """Find every fault in a gang's requirements, in document order."""
    rank = ranks(levels)
    if _is_sound(gang, rank):
        return []
    faults = list(_single_faults(gang, levels))
    against, wrong = _against_group(gang, rank)
    faults += against
    sound = [
        (task, broadest_first(task, rank))
        for i, task in enumerate(effective(gang).tasks)
        if i not in wrong
        and all(r.key in rank for r in task.requirements)
        and len({r.key for r in task.requirements}) == len(task.requirements)
    ]
    faults += _at_odds(sound)
    faults += _ambiguous(sound, rank)
    return in_order(faults)


def _is_sound(gang: Gang, rank: Mapping[str, int]) -> bool:
    """Whether a gang without a topology of its own has no fault. A cheap test, since nearly all gangs pass.

    Tasks of one resource spec share their requirements, which are looked at once.
    """
    if gang.topology:
        return False
    distinct = {id(task.requirements): task for task in gang.tasks}.values()
    if not all(_is_well_written(task.requirements, rank) for task in distinct):
        return False
    tasks = [(task, broadest_first(task, rank)) for task in distinct]
    return _agree(tasks) and _plain(tasks)


def _is_well_written(requirements: Sequence[Requirement], rank: Mapping[str, int]) -> bool:
    """Whether no requirement of a task has a fault by itself; one with ``waitSeconds`` may have one."""
    keys = {requirement.key for requirement in requirements}
    return (
        len(keys) == len(requirements)
        and keys <= rank.keys()
        and all(r.wait_seconds is None and r.group.strip() and r.group.isprintable() for r in requirements)
    )


def _single_faults(gang: Gang, levels: Sequence[Level]) -> Iterator[Fault]:
    """The faults of single requirements, the group's own first."""
    rank = ranks(levels)
    unknown: dict[str, Fault] = {}
    visited: set[tuple[Path, Requirement]] = set()
    twice: set[Path] = set()
    for owner, placed in _written(gang):
        first: dict[str, int] = {}
        for i, (where, requirement) in enumerate(placed):
            if first.setdefault(requirement.key, i) != i and where not in twice:
                twice.add(where)  # tasks of one resource spec have it in common
                yield Fault(
                    (*where, "key"),
                    "duplicate_key",
                    f'Key "{requirement.key}" stands twice in {owner}: a task belongs to one group of a key.',
                )
            if (where, requirement) in visited:
                continue
            visited.add((where, requirement))
            if requirement.key not in rank:
                yield _unknown_key(requirement.key, levels, (*where, "key"), faults=unknown)
            yield from _group_faults(requirement.group, (*where, "group"))
            yield from _wait_faults(requirement, (*where, "waitSeconds"))


def _written(gang: Gang) -> Iterator[tuple[str, list[tuple[Path, Requirement]]]]:
    """The requirements as they were written, with their places, by their tasks."""
    if gang.topology:
        placed = [(place_in_group(gang, i), requirement) for i, requirement in enumerate(gang.topology)]
        yield f'the topology of task group "{gang.name}"', placed
    for task in gang.tasks:
        yield (
            f'task "{task.name}"',
            [(place_of(task, i), requirement) for i, requirement in enumerate(task.requirements)],
        )


def _unknown_key(key: str, levels: Sequence[Level], path: Path, *, faults: dict[str, Fault]) -> Fault:
    if key not in faults:
        keys = tuple(level.key for level in levels)
        message = f'The pool has no topology key "{key[:63]}".'
        if key in (labels := {level.label: level.key for level in levels}):
            message += f' That is a label: did you mean key "{labels[key]}"?'
        elif len(faults) < _SUGGESTED:  # a label of another pool may end in a key
            message += did_you_mean(key, keys) or did_you_mean(key.rpartition("/")[2], keys)
        message += (
            f" Its keys, broadest first: {', '.join(keys)}." if keys else " It has no topology keys at all."
        )
        faults[key] = Fault(path, "unknown_key", message, allowed=keys)
    fault = faults[key]
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


def _wait_faults(requirement: Requirement, path: Path) -> Iterator[Fault]:
    seconds = requirement.wait_seconds
    if seconds is None:
        return
    if requirement.required:
        message = (
            f'Key "{requirement.key}" is {requirement.kind} here, so it is never relaxed: leave waitSeconds '
            "out, or write requirementType: preferred."
        )
        yield Fault(path, "wait_on_required", message)
    if not 0 < seconds < math.inf:
        yield Fault(path, "invalid_wait", f"waitSeconds is a number of seconds above 0, not {seconds:.10g}.")


def _against_group(gang: Gang, rank: Mapping[str, int]) -> tuple[list[Fault], set[int]]:
    """Tasks that contradict the topology of their group, and the places of such tasks in the gang."""
    inherited = {requirement.key: requirement for requirement in gang.topology if requirement.key in rank}
    if not inherited:
        return [], set()
    narrowest = max(inherited, key=lambda key: rank[key])
    faults: list[Fault] = []
    wrong: set[int] = set()
    for i, task in enumerate(gang.tasks):
        if not task.inherits:
            continue
        for at, own in enumerate(task.requirements):
            if own.key in inherited:
                fault = _contradiction(own, inherited[own.key], gang, place_of(task, at))
            elif own.key in rank and rank[own.key] < rank[narrowest]:
                fault = _not_narrower(own.key, narrowest, gang, place_of(task, at), rank)
            else:
                fault = None
            if fault:
                faults.append(fault)
                wrong.add(i)
    return faults, wrong


def _contradiction(
    own: Requirement, inherited_requirement: Requirement, gang: Gang, place: Path
) -> Fault | None:
    if repeats(own, inherited_requirement):
        return None
    field = "waitSeconds"
    if own.group != inherited_requirement.group:
        field = "group"
    elif own.kind != inherited_requirement.kind:
        field = "requirementType"
    message = (
        f'Task group "{gang.name}" already asks {_line(inherited_requirement)} for all its tasks, and a task '
        f'belongs to one group of a key: leave key "{own.key}" out here, or write the same.'
    )
    return Fault((*place, field), "contradicts_group", message)


def _not_narrower(key: str, narrowest: str, gang: Gang, place: Path, rank: Mapping[str, int]) -> Fault:
    narrower = tuple(sorted((k for k in rank if rank[k] > rank[narrowest]), key=lambda k: rank[k]))
    message = (
        f'Key "{key}" is broader than key "{narrowest}", which task group "{gang.name}" names for all its '
        f'tasks: a task may only name keys narrower than "{narrowest}" there'
        + (f" ({', '.join(narrower)})." if narrower else ", and the pool has none.")
    )
    return Fault((*place, "key"), "not_narrower_than_group", message, allowed=narrower)


_Sorted = Sequence[tuple[GangTask, tuple[Requirement, ...]]]


def _agree(tasks: _Sorted) -> bool:
    """Whether each set has one type and one ``waitSeconds``. A cheap test, since nearly all gangs pass."""
    sets: dict[tuple[int, str, str], tuple[int, float, bool]] = {}
    for _, requirements in tasks:
        above = 0
        for requirement in requirements:
            step = (above, requirement.key, requirement.group)
            fresh = (len(sets) + 1, requirement.required_for, requirement.auto)
            number, required_for, auto = sets.setdefault(step, fresh)
            if required_for != requirement.required_for or auto != requirement.auto:
                return False
            above = number
    return True


def _at_odds(tasks: _Sorted) -> Iterator[Fault]:
    """Sets with two types or two ``waitSeconds``; without a fault the first one would silently win."""
    if _agree(tasks):
        return
    sets: dict[SetPath, dict[tuple[str, float], list[tuple[GangTask, Requirement]]]] = {}
    for task, requirements in tasks:
        path: SetPath = ()
        for requirement in requirements:
            path = (*path, (requirement.key, requirement.group))
            by_type = sets.setdefault(path, {})
            by_type.setdefault((requirement.kind, requirement.required_for), []).append((task, requirement))
    for path, by_type in sets.items():
        kinds: dict[str, list[tuple[GangTask, Requirement]]] = {}
        for (kind, _), members in by_type.items():
            kinds.setdefault(kind, []).extend(members)
        if len(kinds) > 1:
            yield _two_types(path, kinds)
        elif len(by_type) > 1:
            yield _two_waits(path, {seconds: members for (_, seconds), members in by_type.items()})


_TYPES = {"required": "required by", "preferred": "preferred by", "auto": "auto for"}


def _two_types(path: SetPath, kinds: Mapping[str, Sequence[tuple[GangTask, Requirement]]]) -> Fault:
    named = [kind for kind in _TYPES if kind in kinds]
    task, requirement = kinds[named[1]][0]
    uses = [f"{_TYPES[kind]} {_tasks(t for t, _ in kinds[kind])}" for kind in named]
    return Fault(
        (*_written_at(task, requirement), "requirementType"),
        "required_and_preferred",
        f"{describe(path)} is {' but '.join(uses)}: write the same for all of them.",
        allowed=tuple(_TYPES),
    )


def _two_waits(path: SetPath, by_time: Mapping[float, Sequence[tuple[GangTask, Requirement]]]) -> Fault:
    waits = [
        (f"for {in_seconds(seconds)}" if seconds else "not at all") + f" by {_tasks(t for t, _ in members)}"
        for seconds, members in sorted(by_time.items())
    ]
    task, requirement = list(by_time.values())[1][0]
    return Fault(
        (*_written_at(task, requirement), "waitSeconds"),
        "two_waits",
        f"{describe(path)} is to be held {' but '.join(waits)}: write the same waitSeconds for all of them.",
    )


def _plain(tasks: _Sorted) -> bool:
    """Whether each (key, group) is below one list of broader keys. A cheap test as well."""
    below: dict[Pair, tuple[str, ...]] = {}
    lists: dict[tuple[str, ...], tuple[tuple[str, ...], ...]] = {}
    for _, requirements in tasks:
        keys = tuple(requirement.key for requirement in requirements)
        if keys not in lists:
            lists[keys] = tuple(keys[:i] for i in range(len(keys)))
        for requirement, broader in zip(requirements, lists[keys], strict=True):
            if below.setdefault((requirement.key, requirement.group), broader) != broader:
                return False
    return True


def _ambiguous(tasks: _Sorted, rank: Mapping[str, int]) -> Iterator[Fault]:
    """Each (key, group) below different lists of broader keys: it could be one domain or two."""
    if _plain(tasks):
        return
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
        lines = " and ".join(_line(requirement) for requirement in missing)
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
    return f"{plural(len(names), 'task')} {listing(names)}"


def _line(requirement: Requirement) -> str:
    """The requirement as a line of YAML."""
    plain = re.fullmatch(r"[A-Za-z][\w-]*", requirement.group, re.ASCII)
    group = requirement.group if plain else json.dumps(requirement.group, ensure_ascii=False)
    kind = "" if requirement.kind == "required" else f", requirementType: {requirement.kind}"
    if requirement.wait_seconds is not None:
        kind += f", waitSeconds: {requirement.wait_seconds:.10g}"
    return f"`- {{key: {requirement.key}, group: {group}{kind}}}`"
