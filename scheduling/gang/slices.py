"""Sets inside a set as *slices*: equal parts of one list of equal pods, each part in a domain of its own.

Some schedulers hold no tree of sets, and place a list of equal pods in one domain such that each run of so
many of them shares a narrower one (Kueue: ``podSetSliceRequiredTopology`` and ``podSetSliceSize``). That is
a set whose sub-sets have the same number of tasks of one shape and require the same level, and nothing else.

A preference around other sub-sets is no slice, and may be ignored: what remains are lists of their own. A
requirement around them may be held by node labels (``pins``), to a domain that the service chooses.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from scheduling.gang.tree import ConstraintNode, NodeRequirement
from scheduling.topology.requirements import GangTask, describe


@dataclass(frozen=True, slots=True)
class Slices:
    """``sets`` in placement order, each of ``size`` tasks, in one domain of the level of rank ``level``."""

    sets: tuple[ConstraintNode, ...]
    size: int
    level: int

    @property
    def tasks(self) -> tuple[GangTask, ...]:
        """The tasks of all slices, slice by slice."""
        return tuple(task for node in self.sets for task in node.tasks)


def slices_of(node: ConstraintNode) -> Slices | str:
    """The slices of a set with sub-sets, or why these are none: the end of a sentence about them."""
    level = node.sets[0].constraint.required
    if (difference := _difference(node)) or level is None:
        return difference
    return Slices(node.sets, node.sets[0].size, level)


def required_around(root: ConstraintNode) -> tuple[ConstraintNode, ...]:
    """The sets that require a domain around sub-sets which are no slices of it, broader ones first."""
    return tuple(
        node
        for node in root.walk()
        if node.sets and node.constraint.required is not None and isinstance(slices_of(node), str)
    )


def without_preferences_around(node: ConstraintNode) -> ConstraintNode:
    """The same sets without the preferences around sub-sets that are no slices of them."""
    sets = tuple(without_preferences_around(inner) for inner in node.sets)
    node = replace(node, sets=sets)
    return replace(node, members=()) if preferences_around(node) else node


def preferences_around(node: ConstraintNode) -> tuple[NodeRequirement, ...]:
    """Those of a set whose sub-sets are no slices; empty where something of it is required."""
    if not node.sets or any(member.required for member in node.members):
        return ()
    return node.members if isinstance(slices_of(node), str) else ()


def ignored_preferences(node: ConstraintNode) -> Iterator[NodeRequirement]:
    """The preferences that ``without_preferences_around`` takes from a set and those inside it."""
    if preferences_around(replace(node, sets=tuple(map(without_preferences_around, node.sets)))):
        yield from node.members
    for inner in node.sets:
        yield from ignored_preferences(inner)


def _difference(node: ConstraintNode) -> str:
    """Why the sub-sets are not equal or not required; empty if they are."""
    if inner := next((inner for inner in node.sets if inner.constraint.preferred is not None), None):
        return f"are not all simply required: {describe(inner.path)} is preferred"
    if node.tasks:
        return f"are not all of it: {len(node.tasks)} of its tasks are in none of them"
    if inner := next((inner for inner in node.sets if inner.sets), None):
        return f"have sets inside them: {describe(inner.path)}"
    first = node.sets[0]
    text = next((text for inner in node.sets if (text := _from_first(first, inner))), _shapes(node))
    return f"are not equal: {text}" if text else ""


def _from_first(first: ConstraintNode, inner: ConstraintNode) -> str:
    if inner.constraint.required != first.constraint.required:
        return f"{describe(first.path)} and {describe(inner.path)} are of different keys"
    if inner.size != first.size:
        return f"{describe(first.path)} has {first.size} tasks and {describe(inner.path)} has {inner.size}"
    return ""


def _shapes(node: ConstraintNode) -> str:
    shapes = {task.shape for inner in node.sets for task in inner.tasks}
    return (
        f"its tasks ask for {len(shapes)} different amounts of resources or nodes" if len(shapes) > 1 else ""
    )
