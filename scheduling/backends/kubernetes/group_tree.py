"""A constraint tree as the groups of Kubernetes' own scheduler: composites with pod groups at their ends.

A group has one topology key at most, so several required keys of the same tasks are groups inside each other;
below a composite a domain is a path of labels. The scheduler places the children of a composite in order of
their creation, then of their names, each in its best domain, and never moves one: so places in the order of
the tree are in their names, and free tasks come last. Seen on kube-scheduler 1.37.2.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from scheduling.gang.tree import ConstraintNode, ConstraintTree
from scheduling.topology.requirements import GangTask, SetPath

MAX_DEPTH = 4
"""Of a tree, the pod groups counted (1.37.2; more are refused in a Workload)."""


@dataclass(frozen=True, slots=True)
class TreeGroup:
    """A composite with its children, or a pod group with its tasks.

    ``level`` is the rank of its topology key. ``is_set``: it stands for the whole of the set ``path``.
    """

    name: str
    parent: str
    path: SetPath
    level: int | None
    children: tuple["TreeGroup", ...] = ()
    tasks: tuple[GangTask, ...] = ()
    is_set: bool = False

    @property
    def depth(self) -> int:
        return 1 + max((child.depth for child in self.children), default=0)

    def walk(self) -> Iterator["TreeGroup"]:
        """This group and all below, each before its children."""
        yield self
        for child in self.children:
            yield from child.walk()


def lay_out(tree: ConstraintTree, name: str) -> TreeGroup:
    """The root, which has this name."""
    return _group(tree.root, name, "")


def _group(node: ConstraintNode, name: str, parent: str) -> TreeGroup:
    """The groups of a set: one for each level that it requires, the broadest first."""
    ranks = sorted({member.rank for member in node.members if member.required})
    return _at_levels(node, ranks or [None], name, parent)


def _at_levels(node: ConstraintNode, ranks: "list[int] | list[None]", name: str, parent: str) -> TreeGroup:
    level, rest = ranks[0], ranks[1:]
    if rest:
        inner = _at_levels(node, rest, f"{name}-00", name)
        return TreeGroup(name, parent, node.path, level, children=(inner,))
    if not node.sets:
        return TreeGroup(name, parent, node.path, level, tasks=node.tasks, is_set=True)
    return TreeGroup(name, parent, node.path, level, children=tuple(_children(node, name)), is_set=True)


def _children(node: ConstraintNode, name: str) -> Iterator[TreeGroup]:
    width = max(2, len(str(len(node.parts) - 1)))
    for place, part in enumerate(node.parts):
        child = f"{name}-{place:0{width}d}"
        if part is None:
            yield TreeGroup(child, name, node.path, None, tasks=node.tasks)
        else:
            yield _group(part, child, name)
