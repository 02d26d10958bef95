"""A constraint tree as Kueue's pod sets.

Kueue places each pod set by itself: a list of equal pods with at most one topology request. So a leaf set is
one pod set; a set with equal sub-sets is one pod set cut into slices, and so are very many equal sets that
nothing broader binds; free tasks are one pod set for each shape of theirs, ``unconstrained``. A set that
requires a domain around other sub-sets is pinned to one: its parts are pod sets, each in its ``domain``.
Source: seen on a running Kueue (main of August 2026).

``podSetGroupName`` is never used: Kueue means a leader of one pod beside its workers by it, and gives every
other second pod set a single node for a single pod.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scheduling import names
from scheduling.errors import UnsupportedCapability
from scheduling.gang.slices import Slices, slices_of
from scheduling.gang.tree import Constraint, ConstraintNode, ConstraintTree
from scheduling.topology.requirements import GangTask, SetPath, describe

MOST_APART = 8
"""Equal sets that nothing broader binds are pod sets of their own up to so many, which every release holds;
more are slices of one that is bound nowhere. Seen on 0.17.0: ``unconstrained`` beside a slice topology."""


@dataclass(frozen=True, slots=True)
class PodSet:
    """Equal pods, in the order of their tasks. ``path`` is their set, ``words`` its name for people.

    ``slice_level`` is the rank of the level that each run of ``slice_size`` tasks shares; None: no slices.
    ``domain`` is where node labels keep it; empty: anywhere.
    """

    name: str
    path: SetPath
    words: str
    tasks: tuple[GangTask, ...]
    constraint: Constraint
    slice_level: int | None = None
    slice_size: int = 0
    domain: tuple[str, ...] = ()

    @property
    def shape(self) -> str:
        return self.tasks[0].shape


def pod_sets(tree: ConstraintTree) -> tuple[PodSet, ...]:
    """The pod sets, in placement order. Raises UnsupportedCapability for what Kueue cannot hold."""
    return tuple(_of_node(tree.root, ()))


def _of_node(node: ConstraintNode, domain: tuple[str, ...]) -> Iterator[PodSet]:
    is_wide = len(node.sets) > MOST_APART and not domain and not node.domain
    slices = slices_of(node) if node.sets and (node.constraint or is_wide) else ""
    if isinstance(slices, Slices):
        yield _sliced(node, slices, domain)
        return
    if slices and node.constraint and node.constraint.required is None:
        raise UnsupportedCapability(f"The sets inside {describe(node.path)} {slices}.")
    domain = node.domain or domain
    for part in node.parts:
        if part is not None:
            yield from _of_node(part, domain)
        else:
            yield from _alike(node.path, node.tasks, Constraint() if node.sets else node.constraint, domain)


def _sliced(node: ConstraintNode, slices: Slices, domain: tuple[str, ...]) -> PodSet:
    return PodSet(
        _name(node.path, 0),
        node.path,
        describe(node.path),
        slices.tasks,
        node.constraint,
        slices.level,
        slices.size,
        domain,
    )


def _alike(
    path: SetPath, tasks: Sequence[GangTask], constraint: Constraint, domain: tuple[str, ...]
) -> Iterator[PodSet]:
    """One pod set for each shape of these tasks; more than one only where nothing binds them."""
    by_shape: dict[str, list[GangTask]] = {}
    for task in tasks:
        by_shape.setdefault(task.shape, []).append(task)
    if constraint and len(by_shape) > 1:
        raise UnsupportedCapability(f"The tasks of {describe(path)} are not alike.")
    for place, alike in enumerate(by_shape.values()):
        words = describe(path) if constraint or not path else f"the remaining tasks of {describe(path)}"
        yield PodSet(_name(path, place), path, words, tuple(alike), constraint, domain=domain)


def _name(path: SetPath, place: int) -> str:
    return f"s-{names.digest(path, place, length=16)}"
