"""The report of what a scheduler applies: one line for each requirement that takes effect.

The report has every requirement that folding kept or implied: a broader key that a narrower one implies is
listed with ``held_by``. A preference without effect is not listed; its notice was given at submission. Levels
that the renderer adds (KAI needs a preferred level beside a required one) are no requirements and never
appear.
"""

import math
from collections.abc import Iterator, Mapping

from scheduling.backends.base import AppliedConstraint
from scheduling.gang.tree import Constraint, ConstraintNode, ConstraintTree, NodeRequirement, lasting
from scheduling.topology.requirements import SetPath, describe


def applied(tree: ConstraintTree, subgroups: Mapping[SetPath, str]) -> tuple[AppliedConstraint, ...]:
    """All requirements in force, broader sets first. ``subgroups`` names each set's subgroup."""
    return tuple(
        line for node in tree.root.walk() for line in _of_node(tree, node, subgroups.get(node.path, ""))
    )


def _of_node(tree: ConstraintTree, node: ConstraintNode, subgroup: str) -> Iterator[AppliedConstraint]:
    constraint, for_good = node.constraint, lasting(node.members)
    for member in node.members:
        preferred = member.required_for < math.inf
        if preferred and for_good is not None and member.rank <= for_good:
            continue
        if node.domain:
            yield _pinned(tree, node, member, subgroup)
            continue
        yield AppliedConstraint(
            path=member.path,
            key=member.key,
            label="" if member.applied_rank is None else tree.levels[member.applied_rank].label,
            requirement="preferred" if preferred else "required",
            tasks=node.size,
            subgroup=subgroup,
            held_by=_implied_by(tree, constraint, member),
            wait_seconds=member.required_for if preferred and member.required_for else None,
            relaxed=preferred and not member.required,
            freed=member.is_freed,
            applied_key=_key(tree, member.applied_rank) if member.is_freed else None,
        )


def _pinned(
    tree: ConstraintTree, node: ConstraintNode, member: NodeRequirement, subgroup: str
) -> AppliedConstraint:
    """A requirement of a set that node labels keep in a domain; a narrower preference has no effect."""
    within = member.rank < len(node.domain)
    return AppliedConstraint(
        path=member.path,
        key=member.key,
        label=tree.levels[member.rank].label if within else "",
        requirement="preferred" if member.required_for < math.inf else "required",
        tasks=node.size,
        subgroup=subgroup,
        held_by=None,
        freed=not within,
        domain=node.domain[: member.rank + 1] if within else (),
    )


def _implied_by(tree: ConstraintTree, constraint: Constraint, member: NodeRequirement) -> str | None:
    """The narrower key that implies this requirement, None if none does."""
    rank = member.applied_rank
    if rank is None:
        return None
    hard = constraint.required is not None and rank <= constraint.required
    narrowest = constraint.required if hard else constraint.preferred
    if narrowest is None:
        raise ValueError(f"{describe(member.path)} is held by no constraint")
    return _key(tree, narrowest) if narrowest != rank else None


def _key(tree: ConstraintTree, rank: int | None) -> str | None:
    return None if rank is None else tree.levels[rank].key
