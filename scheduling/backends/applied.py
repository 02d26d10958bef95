"""The report of what a scheduler was told: one line for each requirement that took effect.

Folding loses nothing a user asked for, and the report shows it: a broader key that a narrower one
implies is listed with ``held_by``. A preference that says nothing is not listed; its notice was given at
submission. Levels we add on our own account (fact: KAI wants a preferred level beside a required one)
are no requirement and never appear.
"""

from collections.abc import Iterator, Mapping

from scheduling.backends.base import AppliedConstraint
from scheduling.requirements import SetPath, describe
from scheduling.subgroups import Subgroup
from scheduling.tree import ConstraintTree, Node


def applied(tree: ConstraintTree, subgroups: Mapping[SetPath, str]) -> tuple[AppliedConstraint, ...]:
    """All requirements in force, broader sets first. ``subgroups`` names each set's subgroup."""
    return tuple(
        line for node in tree.root.walk() for line in _of_node(tree, node, subgroups.get(node.path, ""))
    )


def _of_node(tree: ConstraintTree, node: Node, subgroup: str) -> Iterator[AppliedConstraint]:
    constraint = node.constraint
    for depth, member in enumerate(node.members, start=len(node.path) - len(node.members) + 1):
        narrowest = constraint.required if member.required else constraint.preferred
        if narrowest is None:
            continue
        level = tree.levels[member.rank]
        yield AppliedConstraint(
            path=node.path[:depth],
            key=member.key,
            label=level.label,
            requirement="required" if member.required else "preferred",
            tasks=node.size,
            subgroup=subgroup,
            held_by=tree.levels[narrowest].key if narrowest != member.rank else None,
        )


def in_words(subgroup: Subgroup) -> str:
    """A subgroup as a reader of explanations knows it."""
    if subgroup.node is None and not subgroup.name.endswith("-all"):
        return f"the remaining tasks of {describe(subgroup.path)}"
    return describe(subgroup.path)
