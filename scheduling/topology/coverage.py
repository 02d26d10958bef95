"""How far the nodes of a pool carry the labels of its levels.

A node without a level's label is invisible to every constraint on that level, and, where domains are paths of
labels (KAI), on every narrower one. No workflow is at fault for that, but the user of a waiting workflow
should know how many nodes cannot be used, and which. Pure over maps of node labels; the caller selects the
pool's nodes.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from scheduling.topology.levels import DomainPath, Level, Levels, domain_of, has_domain, ranks
from scheduling.topology.requirements import Gang, effective


@dataclass(frozen=True, slots=True)
class LevelCoverage:
    """How many nodes lack one level's label, and how many are hidden from constraints on it.

    A node is hidden if it lacks the label or, where domains are paths, the label of a broader level. Both
    lists name the first nodes in order.
    """

    level: Level
    lacking: int
    hidden: int
    lacking_names: tuple[str, ...] = ()
    hidden_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SharedValue:
    """A value of one level that exists under several values of a broader level.

    Where domains are paths of labels these are several domains; elsewhere a scheduler would take them for
    one.
    """

    level: Level
    value: str
    broader: Level
    parents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LabelCoverage:
    """The coverage of a pool's levels by its ``nodes`` nodes, one entry for each level, broadest first."""

    nodes: int
    levels: tuple[LevelCoverage, ...] = ()
    shared: tuple[SharedValue, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether every node carries every level's label."""
        return not any(coverage.lacking for coverage in self.levels)

    @property
    def unavailable(self) -> tuple[Level, ...]:
        """The levels that no node shows to a constraint; all levels if there is no node.

        If every node lacks some levels' labels, these levels are listed alone, without the narrower ones that
        they hide.
        """
        lost = tuple(coverage.level for coverage in self.levels if coverage.lacking == self.nodes)
        return lost or tuple(coverage.level for coverage in self.levels if coverage.hidden == self.nodes)

    def only(self, labels: Collection[str]) -> "LabelCoverage":
        """The coverage of the levels with these labels alone."""
        return replace(
            self, levels=tuple(coverage for coverage in self.levels if coverage.level.label in labels)
        )


def cover(
    nodes: Mapping[str, Mapping[str, str]], levels: Levels, *, named: int, paths: bool
) -> LabelCoverage:
    """The coverage of levels by nodes, given as labels by name.

    At most ``named`` nodes are named for each level and reason. ``paths`` says that domains are paths of
    labels (capability ``topology.path_domains``).
    """
    places = {name: domain_of(nodes[name], levels) for name in sorted(nodes)}
    coverages = []
    for rank, level in enumerate(levels):
        lacking = [name for name, place in places.items() if not has_domain(place[rank], level)]
        hidden = [name for name, place in places.items() if _hides(place, rank, level, paths=paths)]
        first = (tuple(lacking[:named]), tuple(hidden[:named]))
        coverages.append(LevelCoverage(level, len(lacking), len(hidden), *first))
    return LabelCoverage(
        nodes=len(nodes), levels=tuple(coverages), shared=tuple(shared(set(places.values()), levels))
    )


def _hides(place: DomainPath, rank: int, level: Level, *, paths: bool) -> bool:
    return not has_domain(place[rank], level) or (paths and None in place[:rank])


def count(places: Mapping[DomainPath, int], levels: Levels, *, paths: bool) -> LabelCoverage:
    """The coverage of levels by nodes that are only counted by their places; no node is named."""

    def total(chosen: Iterable[DomainPath]) -> int:
        return sum(places[place] for place in chosen)

    return LabelCoverage(
        nodes=total(places),
        levels=tuple(
            LevelCoverage(
                level,
                total(place for place in places if not has_domain(place[rank], level)),
                total(place for place in places if _hides(place, rank, level, paths=paths)),
            )
            for rank, level in enumerate(levels)
        ),
        shared=tuple(shared(places.keys(), levels)),
    )


def shared(domains: Collection[DomainPath], levels: Sequence[Level]) -> Iterator[SharedValue]:
    """Each value under several parents, with the parents at the nearest level at which they differ."""
    for rank, level in enumerate(levels):
        reported: set[str] = set()
        split = {key: names for key, names in broader_values(domains, rank).items() if len(names) > 1}
        for value, above in sorted(split, key=lambda key: (key[0], -key[1])):
            if value not in reported:
                reported.add(value)
                yield SharedValue(level, value, levels[above], tuple(sorted(split[value, above])))


def broader_values(domains: Iterable[DomainPath], rank: int) -> Mapping[tuple[str, int], set[str]]:
    """For each value of a level and each broader level's rank, the values above it."""
    above: dict[tuple[str, int], set[str]] = defaultdict(set)
    for domain in domains:
        value = domain[rank]
        if not value:
            continue
        for at, name in enumerate(domain[:rank]):
            if name is not None:
                above[value, at].add(name)
    return above


def levels_named(gang: Gang, levels: Levels) -> Levels:
    """The levels from the broadest to the narrowest that a gang names: its constraints list them all."""
    rank = ranks(levels)
    named = [rank[r.key] for task in effective(gang).tasks for r in task.requirements if r.key in rank]
    return levels[: max(named, default=-1) + 1]
