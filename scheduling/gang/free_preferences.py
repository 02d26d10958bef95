"""Preferences that give way, because a place exists that they do not see.

KAI hides every node that lacks a label of a constraint's Topology, preferred levels included, so a preference
can block a gang that would fit (observed on v0.13 and v0.17). A preference that gives way names fewer levels:
it is cut to the narrowest of the first ``count`` levels, or dropped for 0. Its Topology is cut with it, so
nodes that carry only these labels are visible again.

Requirements never give way, nor does a preference that is still held as required (``stages``). Nodes, names
and order of the tree stay as they are, so pods keep their labels and only constraints are edited.
``fit.freeing`` decides when.
"""

from dataclasses import replace

from scheduling.gang.tree import ConstraintNode, ConstraintTree


def at_preference_levels(tree: ConstraintTree, count: int | None) -> ConstraintTree:
    """The tree while preferences name at most the first ``count`` levels; None: all levels."""
    return tree if count is None else replace(tree, root=_freed(tree.root, count))


def narrowest_preference(tree: ConstraintTree) -> int | None:
    """The rank of the narrowest preference that applies as one; None without any."""
    ranks = (node.constraint.preferred for node in tree.root.walk())
    return max((rank for rank in ranks if rank is not None), default=None)


def _freed(node: ConstraintNode, count: int) -> ConstraintNode:
    return replace(
        node,
        members=tuple(replace(member, preference_levels=count) for member in node.members),
        sets=tuple(_freed(sub, count) for sub in node.sets),
    )
