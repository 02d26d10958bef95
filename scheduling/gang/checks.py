"""Whether a scheduler can hold a gang's requirements, decided from its capabilities alone.

One check serves every scheduler backend, those of other packages included. No requirement is dropped to make
a gang fit: the check refuses it and names the missing capability. (OSMO drops it, and the user learns that
from the placement.) The exception is the pool's own choice to ignore preferences, with a notice; a required
level always holds.

The checked tree is that of the first stage, which requires most. It covers every later stage, because
relaxing adds neither sets nor levels.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from scheduling.capabilities import MEANING, Capabilities, Capability, lacking, places_by_topology
from scheduling.errors import Fault, Notice, Path, in_order
from scheduling.gang.slices import (
    ignored_preferences,
    preferences_around,
    slices_of,
    without_preferences_around,
)
from scheduling.gang.soundness import check_requirements
from scheduling.gang.stages import check_patience
from scheduling.gang.tree import ConstraintNode, ConstraintTree, NodeRequirement, dropped_preferences, grow
from scheduling.sentences import listing, plain_listing
from scheduling.topology.coverage import broader_values
from scheduling.topology.levels import DomainPath, Level
from scheduling.topology.requirements import Gang, Requirement, describe, effective, place_of, segment_words

PreferenceWord = Literal["refuse", "warn"]
"""The fate of a preference that the scheduler cannot hold: a fault, or ignored with a notice."""


def check_gang(
    gang: Gang,
    levels: Sequence[Level],
    *,
    capabilities: Capabilities,
    domains: Collection[DomainPath] | None,
    unsupported_preferred: PreferenceWord = "refuse",
    queue_timeout: float | None = None,
    prefers_by_affinity: bool = False,
) -> tuple[list[Fault], list[Notice], ConstraintTree | None]:
    """Find every fault, and what the user should know of a gang that is accepted.

    ``domains`` are the places of the pool's nodes, None or empty if no node is known; ``queue_timeout`` is
    in seconds, None for none. The tree, of the first stage and without ignored preferences, is given only
    when the requirements are sound. ``prefers_by_affinity``: preferences are node affinity of pods alone, so
    the scheduler has to hold only sets that are required, and the tree has no others.
    """
    ignoring = unsupported_preferred == "warn" and Capability.TOPOLOGY_PREFERRED not in capabilities
    unsound = check_requirements(gang, levels)
    gang = effective(gang)
    faults = [
        *unsound,
        *_kinds(gang, capabilities, unsupported_preferred),
        *check_patience(gang, capabilities=capabilities, queue_timeout=queue_timeout),
    ]
    if unsound:
        return in_order(faults), [], None
    tree = grow(gang, levels, ignore_preferred=ignoring)
    notices = dropped_preferences(tree)
    if prefers_by_affinity:
        tree = grow(gang, levels, ignore_preferred=True)
    if ignoring:
        notices += _ignored(gang, capabilities)
    if unsupported_preferred == "warn" and slices_alone(capabilities):
        notices += _ignored_around(tree, capabilities)
        tree = replace(tree, root=without_preferences_around(tree.root))
    placed_by_topology = places_by_topology(capabilities)
    if placed_by_topology:
        faults += _nesting(tree, capabilities)
        faults += _mixed_sets(tree, capabilities)
    if placed_by_topology and Capability.TOPOLOGY_PATH_DOMAINS not in capabilities:
        path_faults, path_notices = _single_values(tree, capabilities, domains)
        faults += path_faults
        notices += path_notices
    gang_faults, gang_notices = _start_together(tree, capabilities)
    return in_order([*faults, *gang_faults]), [*notices, *gang_notices], tree


def slices_alone(capabilities: Capabilities) -> bool:
    """Whether the scheduler holds sets inside a set as slices of it, and no others."""
    return Capability.TOPOLOGY_EQUAL_SETS in capabilities and Capability.TOPOLOGY_NESTED not in capabilities


def chooses_domains(capabilities: Capabilities) -> bool:
    """Whether the service chooses the domain of a set that the scheduler does not hold around others."""
    return slices_alone(capabilities) and Capability.TOPOLOGY_CHOSEN_DOMAIN in capabilities


def _kinds(gang: Gang, capabilities: Capabilities, unsupported_preferred: PreferenceWord) -> Iterator[Fault]:
    """Requirements of a type that the scheduler does not support."""
    hard = Capability.TOPOLOGY_REQUIRED not in capabilities
    soft = Capability.TOPOLOGY_PREFERRED not in capabilities and unsupported_preferred == "refuse"
    if not (hard or soft):
        return
    for where, requirement in _requirements(gang):
        if not (hard if requirement.required else soft):
            continue
        kind = "required" if requirement.required else "preferred"
        yield lacking(
            Capability.TOPOLOGY_REQUIRED if requirement.required else Capability.TOPOLOGY_PREFERRED,
            capabilities,
            path=(*where, "requirementType"),
            because=f'Key "{requirement.key}" is {kind} here.',
        )


def _ignored(gang: Gang, capabilities: Capabilities) -> Iterator[Notice]:
    """A notice for each preference that is ignored, as the pool's administrator chose."""
    for where, requirement in _requirements(gang):
        if requirement.required:
            continue
        name = segment_words(requirement.group) or requirement.group
        message = (
            f'The preference for one {requirement.key} "{name}" is ignored, as the pool allows: '
            f'scheduler "{capabilities.scheduler}" lacks capability {Capability.TOPOLOGY_PREFERRED} '
            f"({MEANING[Capability.TOPOLOGY_PREFERRED]})."
        )
        yield Notice("preference_ignored", message, where)


def _requirements(gang: Gang) -> Iterator[tuple[Path, Requirement]]:
    """Every requirement in force, once for each place where it is written."""
    visited: set[tuple[Path, Requirement]] = set()
    for task in gang.tasks:
        for i, requirement in enumerate(task.requirements):
            where = place_of(task, i)
            if (where, requirement) not in visited:
                visited.add((where, requirement))
                yield where, requirement


def _nesting(tree: ConstraintTree, capabilities: Capabilities) -> Iterator[Fault]:
    """Sets inside other sets, on a scheduler that cannot nest them, or only equal ones."""
    if Capability.TOPOLOGY_NESTED in capabilities:
        return
    for outer in tree.root.walk():
        if not outer.members or not outer.sets:
            continue
        if Capability.TOPOLOGY_EQUAL_SETS in capabilities:
            if chooses_domains(capabilities) and outer.constraint.required is not None:
                continue
            if isinstance(obstacle := slices_of(outer), str):
                yield lacking(
                    Capability.TOPOLOGY_NESTED,
                    capabilities,
                    path=(*_written_at(outer.members[0]), "key"),
                    because=_unheld(outer, obstacle),
                )
            continue
        for inner in outer.sets:
            yield lacking(
                Capability.TOPOLOGY_NESTED,
                capabilities,
                path=(*_written_at(inner.members[0]), "key"),
                because=f"{describe(inner.path[len(outer.path) :])} lies inside {describe(outer.path)}.",
            )


def _unheld(outer: ConstraintNode, obstacle: str) -> str:
    """Why a set around others is refused, and what would do."""
    sets = f"The sets inside {describe(outer.path)} {obstacle}."
    if not preferences_around(outer):
        return sets
    keys = plain_listing(member.key for member in outer.members)
    return (
        f"{sets} A preference for one {keys} around them cannot be held beside their own: leave it out, or "
        "let the pool ignore it (unsupported_preferred: warn)."
    )


def _ignored_around(tree: ConstraintTree, capabilities: Capabilities) -> Iterator[Notice]:
    """A notice for each preference around sets that is ignored, as the pool's administrator chose."""
    for member in ignored_preferences(tree.root):
        name = segment_words(member.group) or member.group
        message = (
            f'The preference for one {member.key} "{name}" around other sets is ignored, as the pool '
            f'allows: scheduler "{capabilities.scheduler}" holds the preferences of each set alone.'
        )
        yield Notice("preference_ignored", message, _written_at(member))


def _mixed_sets(tree: ConstraintTree, capabilities: Capabilities) -> Iterator[Fault]:
    """Sets of tasks of several shapes, or of both types, on a scheduler that cannot hold such a set."""
    for node in tree.root.walk():
        constraint = node.constraint
        if not constraint:
            continue
        where = (*_written_at(node.members[0]), "key")
        shapes = {task.shape for task in node.tasks}
        if len(shapes) > 1 and Capability.TOPOLOGY_MIXED_PODS not in capabilities:
            because = (
                f"The tasks of {describe(node.path)} ask for {len(shapes)} different amounts of resources or "
                "nodes."
            )
            yield lacking(Capability.TOPOLOGY_MIXED_PODS, capabilities, path=where, because=because)
        if (
            constraint.required is not None
            and constraint.preferred is not None
            and Capability.TOPOLOGY_PREFERRED in capabilities
            and Capability.TOPOLOGY_BOTH_TYPES not in capabilities
        ):
            because = (
                f"The same tasks require one {tree.levels[constraint.required].key} and prefer one "
                f"{tree.levels[constraint.preferred].key} ({describe(node.path)}): keep one."
            )
            yield lacking(Capability.TOPOLOGY_BOTH_TYPES, capabilities, path=where, because=because)


def _single_values(
    tree: ConstraintTree, capabilities: Capabilities, domains: Collection[DomainPath] | None
) -> tuple[list[Fault], list[Notice]]:
    """The faults and notices of a scheduler whose domain is one label value instead of a path.

    One that nests sets finds a domain inside those of the broader levels that the same tasks require.
    """
    faults: list[Fault] = []
    unsure: set[int] = set()
    nests = Capability.TOPOLOGY_NESTED in capabilities
    for node, above in _with_required_above(tree.root, ()):
        hard = [member for member in node.members if member.required]
        if not nests:
            faults += _two_required(node, hard, capabilities)
        for member in hard if nests else hard[-1:]:
            if member.rank == 0:
                continue
            within = [rank for rank in above if rank < member.rank] if nests else []
            if not domains:
                unsure.add(member.rank)
            elif shared := shared_values(domains, member.rank, within=within):
                faults.append(
                    lacking(
                        Capability.TOPOLOGY_PATH_DOMAINS,
                        capabilities,
                        path=(*_written_at(member), "key"),
                        because=f"On the pool's nodes {tree.levels[member.rank].label} has values in two "
                        f"broader domains: {listing(shared)}.",
                    )
                )
    notices = [
        Notice(
            "domains_unknown",
            f'No node of the pool is known yet, so it was not checked that each value of key "{key}" is '
            "in one broader domain only; it will be before the tasks are placed.",
            tree.gang.path,
        )
        for key in (tree.levels[rank].key for rank in sorted(unsure))
    ]
    return faults, notices


def _two_required(
    node: ConstraintNode, hard: Sequence[NodeRequirement], capabilities: Capabilities
) -> Iterator[Fault]:
    if len(hard) > 1:
        because = f"The same tasks require {listing(m.key for m in hard)} ({describe(node.path)}): keep one."
        path = (*_written_at(hard[0]), "key")
        yield lacking(Capability.TOPOLOGY_PATH_DOMAINS, capabilities, path=path, because=because)


def _with_required_above(
    node: ConstraintNode, above: tuple[int, ...]
) -> Iterator[tuple[ConstraintNode, tuple[int, ...]]]:
    """Each node with the ranks that it or a node above it requires."""
    above = (*above, *(member.rank for member in node.members if member.required))
    yield node, above
    for sub in node.sets:
        yield from _with_required_above(sub, above)


def shared_values(domains: Collection[DomainPath], rank: int, *, within: Collection[int] = ()) -> list[str]:
    """The values of one level that exist under two values of a broader level, sorted.

    ``within`` are broader levels in one domain of which alone values are compared.
    """
    apart: dict[DomainPath, list[DomainPath]] = {}
    for domain in domains:
        apart.setdefault(tuple(domain[at] for at in within), []).append(domain)
    return sorted(
        {
            value
            for inside in apart.values()
            for (value, _), names in broader_values(inside, rank).items()
            if len(names) > 1
        }
    )


APART = "no_gang"
"""The code of the notice that not all tasks of a group are placed together."""


def _start_together(tree: ConstraintTree, capabilities: Capabilities) -> tuple[list[Fault], list[Notice]]:
    """Whether all tasks start together."""
    gang = tree.gang
    if Capability.GANG not in capabilities:
        if len(gang.tasks) == 1:
            return [], []
        message = (
            f'Scheduler "{capabilities.scheduler}" lacks capability gang: the {len(gang.tasks)} tasks of '
            f'"{gang.name}" are placed one by one, and some may run while others wait.'
        )
        return [], [Notice(APART, message, gang.path)]
    if tree.is_flat or Capability.GANG_MULTI_SET in capabilities:
        return [], []
    count = len(tree.root.sets) + bool(tree.root.tasks)
    because = f'Task group "{gang.name}" falls into {count} sets that must start together.'
    return [lacking(Capability.GANG_MULTI_SET, capabilities, path=gang.path, because=because)], []


def _written_at(member: NodeRequirement) -> Path:
    requirements = member.task.requirements
    return place_of(member.task, next(i for i, r in enumerate(requirements) if r.key == member.key))
