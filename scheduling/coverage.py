"""How far the nodes of a pool carry the labels of its levels.

A node without a level's label is invisible to every constraint on that level, and, where domains are paths
of labels, on every narrower one (seen on KAI). That is no fault of a workflow, but whoever waits should know
how many nodes there are that nothing can use, and which. Pure over maps of node labels; who the pool's
nodes are is the caller's knowledge.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from scheduling.levels import Domain, Level, Levels, domain_of, ranks
from scheduling.requirements import Gang, effective


@dataclass(frozen=True, slots=True)
class LevelCoverage:
    """How many nodes lack one level's label, and the first of their names in order.

    ``hidden`` counts those that lack this label or a broader one.
    """

    level: Level
    lacking: int
    hidden: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SharedValue:
    """One value of a level that stands under several values of a broader one.

    Where domains are paths of labels these are several domains; elsewhere they would be taken for one.
    """

    level: Level
    value: str
    broader: Level
    parents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LabelCoverage:
    """What ``nodes`` nodes show of a pool's levels, one entry for each, broadest first."""

    nodes: int
    levels: tuple[LevelCoverage, ...]
    shared: tuple[SharedValue, ...]

    @property
    def is_complete(self) -> bool:
        """Whether every node carries every level's label."""
        return not any(level.lacking for level in self.levels)


def cover(nodes: Mapping[str, Mapping[str, str]], levels: Levels, *, named: int) -> LabelCoverage:
    """Look at nodes, given as labels by name; at most ``named`` nodes are named for each level."""
    places = {name: domain_of(nodes[name], levels) for name in sorted(nodes)}
    return LabelCoverage(
        nodes=len(nodes),
        levels=tuple(_of_level(places, level, rank, named) for rank, level in enumerate(levels)),
        shared=tuple(shared(set(places.values()), levels)),
    )


def _of_level(places: Mapping[str, Domain], level: Level, rank: int, named: int) -> LevelCoverage:
    lacking = [name for name, place in places.items() if place[rank] is None]
    hidden = sum(None in place[: rank + 1] for place in places.values())
    return LevelCoverage(level, len(lacking), hidden, tuple(lacking[:named]))


def shared(domains: Collection[Domain], levels: Sequence[Level]) -> Iterator[SharedValue]:
    """Every value under several parents, with those of the nearest level that tells them apart."""
    for rank, level in enumerate(levels):
        said: set[str] = set()
        split = {key: names for key, names in broader_values(domains, rank).items() if len(names) > 1}
        for value, above in sorted(split, key=lambda key: (key[0], -key[1])):
            if value not in said:
                said.add(value)
                yield SharedValue(level, value, levels[above], tuple(sorted(split[value, above])))


def broader_values(domains: Iterable[Domain], rank: int) -> Mapping[tuple[str, int], set[str]]:
    """For each value of a level and each broader level's rank, the values seen above it."""
    above: dict[tuple[str, int], set[str]] = defaultdict(set)
    for domain in domains:
        value = domain[rank]
        if value is None:
            continue
        for at, name in enumerate(domain[:rank]):
            if name is not None:
                above[value, at].add(name)
    return above


def levels_gone(levels: Sequence[Level], nodes: Iterable[Mapping[str, str]]) -> tuple[Level, ...]:
    """Levels whose label none of these nodes carries, broadest first; with no node at all, every one."""
    left = {level.label: level for level in levels}
    for labels in nodes:
        if not left:
            break
        left = {label: level for label, level in left.items() if label not in labels}
    return tuple(left.values())


def levels_named(gang: Gang, levels: Levels) -> Levels:
    """The levels that a gang's constraints list where domains are paths: down to the narrowest it names."""
    rank = ranks(levels)
    named = [rank[r.key] for task in effective(gang).tasks for r in task.requirements if r.key in rank]
    return levels[: max(named, default=-1) + 1]
