"""An order of a gang's sets other than the usual one.

KAI places the parts of a set one after the other, in order of their names, and never moves a placed one. The
usual order (``tree.placement_order``) is a good guess that knows no nodes. Where a search of the nodes finds
a place that only another order reaches (``fit.reorder``), the gang is given that order. It changes names
alone: never which sets there are, their constraints, or where sets are wrapped.

Observed on KAI v0.13 and v0.17: a pending gang whose leaves are renamed, in the pod group and on the pods, is
placed in the new order in the next cycle.

A set's own tasks have their place among its sub-sets too. They stay last beside an inner sub-set: KAI v0.13
places those before all leaves, whatever the names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scheduling import names
from scheduling.gang.subgroups import is_wrapping, lay_out
from scheduling.gang.tree import ConstraintNode, ConstraintTree, placement_order
from scheduling.sentences import plain_listing
from scheduling.topology.requirements import SetPath, describe, members_json, path_in


@dataclass(frozen=True, slots=True)
class PartsOrder:
    """The order of one set's parts. ``path`` is the set; in ``parts`` it stands for the set's own tasks."""

    path: SetPath
    parts: tuple[SetPath, ...]


SetOrder = tuple[PartsOrder, ...]
"""The sets whose parts are in an order of their own; empty for the usual order everywhere."""


MOST_NAMED = 20
"""Parts that a sentence names; of longer orders it gives the number of the others."""


def ordered(tree: ConstraintTree, order: SetOrder) -> ConstraintTree:
    """The tree with its parts in this order. Raises ValueError for an order of another gang."""
    if not order:
        return tree
    by_path = {entry.path: entry.parts for entry in order}
    root = _ordered(tree.root, by_path)
    if by_path:
        raise ValueError(f'"{tree.gang.name}" has no set {describe(next(iter(by_path)))} to be ordered.')
    return replace(tree, root=root)


def _ordered(node: ConstraintNode, by_path: dict[SetPath, tuple[SetPath, ...]]) -> ConstraintNode:
    """The node in order; takes what it uses out of ``by_path``."""
    parts = by_path.pop(node.path, None)
    sets = {sub.path: _ordered(sub, by_path) for sub in node.sets}
    if parts is None:
        return replace(node, sets=tuple(sets.values()))
    own = [node.path] if node.tasks else []
    if sorted(parts) != sorted([*sets, *own]) or (own and is_wrapping(node) and parts[-1] != node.path):
        raise ValueError(f"The order of {describe(node.path)} does not name each of its parts once.")
    return replace(
        node,
        sets=tuple(sets[path] for path in parts if path != node.path),
        free_place=None if not own or parts[-1] == node.path else parts.index(node.path),
    )


def order_of(tree: ConstraintTree) -> SetOrder:
    """The order of a tree: the sets whose parts are not in the usual order."""
    return tuple(
        PartsOrder(node.path, parts_of(node))
        for node in tree.root.walk()
        if node.sets and parts_of(node) != _usual(node)
    )


def parts_of(node: ConstraintNode) -> tuple[SetPath, ...]:
    """The paths of a node's parts, in order; its own stands for its own tasks."""
    return tuple(node.path if part is None else part.path for part in node.parts)


def _usual(node: ConstraintNode) -> tuple[SetPath, ...]:
    own = (node.path,) if node.tasks else ()
    return (*(sub.path for sub in sorted(node.sets, key=placement_order)), *own)


def relabelled(before: ConstraintTree, after: ConstraintTree) -> int:
    """Count the tasks whose leaf has another name in the second of two orders of one gang."""
    leaves = {task.name: sub.name for sub in lay_out(before) for task in sub.tasks}
    return sum(leaves[task.name] != sub.name for sub in lay_out(after) for task in sub.tasks)


def digest_of(order: SetOrder) -> str:
    """A mark of an order, for annotations; empty for the usual order."""
    return names.digest(to_json(order), length=16) if order else ""


def to_json(order: SetOrder) -> list[dict[str, Any]]:
    """Values of JSON alone; ``from_json`` is its inverse."""
    return [{"set": members_json(each.path), "parts": list(map(members_json, each.parts))} for each in order]


def from_json(value: Sequence[Mapping[str, Any]]) -> SetOrder:
    return tuple(PartsOrder(path_in(entry["set"]), tuple(map(path_in, entry["parts"]))) for entry in value)


def sentence(order: SetOrder) -> str:
    """The order in words: ``rack "r2", rack "r1", then the tasks without a set``."""
    return "; ".join(
        f"{plain_listing(_words(entry), limit=MOST_NAMED)}"
        + (f" (in {describe(entry.path)})" if entry.path else "")
        for entry in order
    )


def _words(entry: PartsOrder) -> list[str]:
    return [
        "the other tasks" if part == entry.path else describe(part[len(entry.path) :]) for part in entry.parts
    ]
