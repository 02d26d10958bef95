"""Sets inside a set as *slices*: equal parts of one list of equal pods, each part in a domain of its own.

Some schedulers hold no tree of sets, and place a list of equal pods in one domain such that each run of so
many of them shares a narrower one (Kueue: ``podSetSliceRequiredTopology`` and ``podSetSliceSize``). That is
a set whose sub-sets have the same number of tasks of one shape and require the same level, and nothing else.
"""

from dataclasses import dataclass

from scheduling.gang.tree import ConstraintNode
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
    """The slices of a set with sub-sets, or the reason why it has none, as the end of a sentence."""
    level = node.sets[0].constraint.required
    if (difference := _difference(node)) or level is None:
        return difference
    return Slices(node.sets, node.sets[0].size, level)


def _difference(node: ConstraintNode) -> str:
    """Why the sub-sets are not equal; empty if they are."""
    if node.tasks:
        return f"{len(node.tasks)} of its tasks are in none of the sets inside it"
    if inner := next((inner for inner in node.sets if inner.sets), None):
        return f"{describe(inner.path)} has sets inside it, too"
    first = node.sets[0]
    return next((text for inner in node.sets if (text := _from_first(first, inner))), _shapes(node))


def _from_first(first: ConstraintNode, inner: ConstraintNode) -> str:
    if inner.constraint.required is None or inner.constraint.preferred is not None:
        return f"{describe(inner.path)} is not simply required"
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
