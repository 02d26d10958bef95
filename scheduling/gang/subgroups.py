"""A constraint tree laid out as named subgroups: a flat list with parents, as schedulers take it.

Every task ends in exactly one leaf. Tasks that stand directly in a node with sub-sets get one *free leaf*
there, without a constraint of its own, named to be placed last unless the gang has an order of its own
(``set_order``).

*Wrapping*: KAI v0.13 places all inner subgroups before all leaves, whatever their names, while v0.17
orders both by name. A leaf set beside an inner sibling is therefore written as an inner subgroup that
carries the set's constraint and holds one unconstrained leaf; then names alone decide, on both versions
(seen running: unwrapped, such a gang stayed pending for ever).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from scheduling import names
from scheduling.gang.tree import Constraint, ConstraintNode, ConstraintTree
from scheduling.topology.requirements import GangTask, SetPath


@dataclass(frozen=True, slots=True)
class Subgroup:
    """One entry of the list. ``tasks`` is empty for an inner one; ``path`` is the set it belongs to."""

    name: str
    parent: str | None
    path: SetPath
    constraint: Constraint
    tasks: tuple[GangTask, ...]
    node: ConstraintNode | None
    """The co-location set whose constraint this subgroup carries; None for a generated leaf."""

    @property
    def is_leaf(self) -> bool:
        return bool(self.tasks)


def lay_out(tree: ConstraintTree) -> tuple[Subgroup, ...]:
    """Name all subgroups, each before those below it, siblings in placement order.

    Empty if the gang is one set: then the pod group itself holds the pods.
    """
    return () if tree.is_flat else tuple(_below(tree.root, parent=None))


def _below(node: ConstraintNode, *, parent: str | None) -> Iterator[Subgroup]:
    siblings = len(node.parts)
    wrap = is_wrapping(node)
    for place, sub in enumerate(node.parts):
        if sub is None:
            yield _leaf(names.subgroup(place, siblings, node.path, kind="free"), parent, node)
            continue
        name = names.subgroup(place, siblings, sub.path)
        constraint = sub.constraint
        if sub.sets:
            yield Subgroup(name, parent, sub.path, constraint, (), sub)
            yield from _below(sub, parent=name)
        elif wrap:
            yield Subgroup(name, parent, sub.path, constraint, (), sub)
            yield _leaf(names.subgroup(0, 1, sub.path, kind="all"), name, sub)
        else:
            yield Subgroup(name, parent, sub.path, constraint, sub.tasks, sub)


def is_wrapping(node: ConstraintNode) -> bool:
    """Whether leaf sets in this node are wrapped, because a sibling is an inner subgroup."""
    return any(sub.sets for sub in node.sets)


def _leaf(name: str, parent: str | None, node: ConstraintNode) -> Subgroup:
    return Subgroup(name, parent, node.path, Constraint(), node.tasks, None)
