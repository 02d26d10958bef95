"""The demand of a gang of others, from the parts that its object has.

A part is a set of pods that its scheduler places together: the gang itself, a sub-group, a pod group, a pod
set. Parts become the sets of a constraint tree as ``scheduling.gang.tree`` has them: parts with the same pods
are one set, and pods without a constraint of their own are directly in the set around them.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from scheduling.fit.demand import Demand
from scheduling.foreign.gang import PodKept
from scheduling.foreign.written import printable
from scheduling.gang.tree import ConstraintNode, ConstraintTree, NodeRequirement
from scheduling.kubernetes_syntax import GPU
from scheduling.topology.levels import Level, Levels
from scheduling.topology.requirements import Gang, GangTask, SetPath

MOST_TASKS = 10_000
"""Pods of a gang that are counted; one of more is not understood."""

MOST_DEPTH = 20
"""Parts inside each other."""


@dataclass(slots=True)
class Part:
    """A part; ``parts`` inside it are in placement order, and ``pods`` directly in it with their numbers.

    ``required`` and ``preferred`` are ranks of levels, ``cut`` is the narrowest level that the constraint's
    nodes must carry. ``slice_size`` cuts the pods into equal parts that require ``slice_level``.
    """

    name: str
    required: int | None = None
    preferred: int | None = None
    cut: int | None = None
    parts: "list[Part]" = field(default_factory=list)
    pods: list[tuple[PodKept, int]] = field(default_factory=list)
    slice_level: int | None = None
    slice_size: int = 0

    @property
    def is_constrained(self) -> bool:
        return self.required is not None or self.preferred is not None

    @property
    def size(self) -> int:
        """How many pods it has, those inside its parts too."""
        return sum(count for _, count in self.pods) + sum(part.size for part in self.parts)

    def depth(self) -> int:
        """How many parts are inside each other, this one counted."""
        depth, row = 0, [self]
        while row:
            depth, row = depth + 1, [inner for part in row for inner in part.parts]
        return depth


def levels_of(labels: Sequence[str]) -> Levels:
    """Levels of these labels; a level's key is the last part of its label, if no other label has the same."""
    short = [label.rpartition("/")[2] for label in labels]
    return tuple(
        Level(key if short.count(key) == 1 else label, label)
        for key, label in zip(short, labels, strict=True)
    )


def tree_of(
    name: str, root: Part, levels: Levels, *, word: str, demand_of: Callable[[PodKept], Demand]
) -> tuple[ConstraintTree, dict[str, Demand]]:
    """The constraint tree, and each task's demand. ``word`` is what a part is called in sentences.

    The root has at least one pod, and no more than MOST_TASKS and MOST_DEPTH.
    """
    grower = _PartGrower(word, demand_of)
    node = grower.node(root, ())
    gang = Gang(printable(name), tuple(node.all_tasks()))
    return ConstraintTree(gang, levels, node), grower.demands


class _PartGrower:
    """A tree while it grows."""

    def __init__(self, word: str, demand_of: Callable[[PodKept], Demand]) -> None:
        self._word, self._demand_of = word, demand_of
        self._shapes: dict[Demand, str] = {}
        self.demands: dict[str, Demand] = {}

    def node(self, part: Part, path: SetPath) -> ConstraintNode:
        chain = list(_chain(part))
        part = chain[-1]
        inner = self._slices(part) if part.slice_size else [each for each in part.parts if each.size]
        free = [place for place, each in enumerate(inner) if not (each.is_constrained or each.parts)]
        pods, free_place = list(part.pods), None
        if len(free) == 1 and not pods and len(inner) > 1:
            pods, free_place = inner.pop(free[0]).pods, free[0]
        if part.slice_size:
            pods = []
        tasks = tuple(self._tasks(part.name, pods))
        sets = tuple(
            self.node(each, (*path, (self._word, self._group(each, place))))
            for place, each in enumerate(inner)
        )
        some = tasks[0] if tasks else next(sets[0].all_tasks())
        members = tuple(member for each in chain for member in _members(each, path, some))
        return ConstraintNode(
            path=path,
            members=members,
            tasks=tasks,
            sets=sets,
            size=len(tasks) + sum(each.size for each in sets),
            gpus=sum(task.gpus for task in tasks) + sum(each.gpus for each in sets),
            required_for=max(
                (*(member.required_for for member in members), *(each.required_for for each in sets)),
                default=0.0,
            ),
            free_place=None if free_place == len(sets) else free_place,
            cut=max((each.cut for each in chain if each.cut is not None), default=None),
        )

    def _tasks(self, part: str, pods: Sequence[tuple[PodKept, int]]) -> Iterator[GangTask]:
        for pod, count in pods:
            demand = self._demand_of(pod)
            shape = self._shapes.setdefault(demand, str(len(self._shapes)))
            for _ in range(count):
                name = f"{printable(part) or 'pod'}-{len(self.demands)}"
                self.demands[name] = demand
                yield GangTask(name, pod.requests.get(GPU, 0), shape=shape)

    def _group(self, part: Part, place: int) -> str:
        """A name that no other part of the same has, and that can be printed."""
        name = printable(part.name)
        return name if name == part.name else f"{name} ({place})"

    def _slices(self, part: Part) -> list[Part]:
        """Equal parts, each of so many pods; the pods are alike."""
        (pod, count) = part.pods[0]
        size = part.slice_size
        return [
            Part(f"{part.name}-{place}", required=part.slice_level, pods=[(pod, size)])
            for place in range(count // size)
        ]


def _chain(part: Part) -> Iterator[Part]:
    """The part, and those inside it that have the same pods, to the innermost."""
    while True:
        yield part
        inner = [each for each in part.parts if each.size]
        if part.pods or part.slice_size or len(inner) != 1:
            return
        part = inner[0]


def _members(part: Part, path: SetPath, task: GangTask) -> Iterator[NodeRequirement]:
    if part.required is not None:
        yield NodeRequirement(path, part.required, True, math.inf, task)
    if part.preferred is not None:
        yield NodeRequirement(path, part.preferred, False, 0.0, task)
