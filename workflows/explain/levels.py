"""Whether the levels that a group's constraints name still exist, and the condition that says so.

A group is accepted under levels that its cluster has. When no node that it may use carries a level's label
any more, or an external Topology object has lost the level, the scheduler finds no place for it, however long
it waits. That is not the group's fault: running work is not touched and no group ends for it. Pure: labels
in, a condition out. The explanation of a waiting group uses the condition's message, so both agree.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pools.conditions import Condition
from scheduling.sentences import agree, count_of, listing, plain_listing
from scheduling.topology.coverage import LabelCoverage, LevelCoverage, cover
from scheduling.topology.levels import Levels

UNAVAILABLE = "TopologyLevelsUnavailable"
NAMED_NODES = 3

_NO_PLACEMENT = "no group that needs it can be placed; running work is not affected."

ADVICE = (
    "You can wait until it is back, cancel the workflow, or cancel it and submit it again under the pool's "
    "keys as they are now."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalTopology:
    """An external Topology object: the labels that it lists, None if it does not exist.

    ``expected`` are the levels that it should list.
    """

    name: str
    labels: Sequence[str] | None
    expected: Levels


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedLevels:
    """The levels that a group's constraints name: ``labels`` among the frozen ``levels``.

    ``paths``: domains are paths of labels. ``external``: the Topology object they are in, if it is not ours.
    """

    levels: Levels
    labels: frozenset[str]
    paths: bool
    external: ExternalTopology | None = None

    @property
    def down_to_the_narrowest(self) -> Levels:
        """The levels from the broadest to the narrowest one named."""
        ranks = [rank for rank, level in enumerate(self.levels) if level.label in self.labels]
        return self.levels[: max(ranks, default=-1) + 1]


def coverage_of(named: NamedLevels, nodes: Mapping[str, Mapping[str, str]]) -> LabelCoverage:
    """How far nodes carry the labels without which a constraint does not see them.

    Those are all labels that the constraint's Topology object lists, where there is one.
    """
    levels = named.down_to_the_narrowest
    if named.external is not None:
        labels = named.external.labels or ()
        levels = tuple(level for level in named.levels if level.label in labels) or levels
    coverage = cover(nodes, levels, named=NAMED_NODES, paths=named.paths)
    return coverage if named.paths else coverage.only(named.labels)


def condition_of(named: NamedLevels, coverage: LabelCoverage) -> Condition:
    """The condition whether all levels that the constraints need exist."""
    if named.external is not None and (lost := _lost(named, named.external)):
        reason = "TopologyNotFound" if named.external.labels is None else "TopologyLostLevel"
        return _true(reason, _of_topology(lost, named.external))
    if coverage.unavailable:
        reason = "NoNodeCarriesLabel" if coverage.nodes else "NoNodes"
        return _true(reason, unavailable(coverage))
    return Condition(type=UNAVAILABLE, status="False", reason="Available")


def _true(reason: str, message: str) -> Condition:
    return Condition(type=UNAVAILABLE, status="True", reason=reason, message=message)


def _lost(named: NamedLevels, external: ExternalTopology) -> Levels:
    levels = named.down_to_the_narrowest
    return tuple(level for level in levels if level.label not in (external.labels or ()))


def _of_topology(lost: Levels, external: ExternalTopology) -> str:
    change = (
        f'Topology "{external.name}", which the group\'s constraints name, is not in the cluster'
        if external.labels is None
        else f'Topology "{external.name}" does not list {_label_list(lost)}'
    )
    return f"{change}, so {_NO_PLACEMENT}"


def unavailable(coverage: LabelCoverage) -> str:
    """Say which labels no node carries; empty if each is carried."""
    lost = coverage.unavailable
    if not lost:
        return ""
    if not coverage.nodes:
        return f"The pool has no node now, and so none with {_label_list(lost)}; {_NO_PLACEMENT}"
    alone = any(level.lacking == coverage.nodes for level in coverage.levels)
    nodes = count_of(coverage.nodes, "node")
    return (
        f"None of the pool's {nodes} carries {_label_list(lost)}"
        f"{'' if alone else ' together with those of the broader keys'}, so {_NO_PLACEMENT}"
    )


def _label_list(levels: Levels) -> str:
    keys = listing([level.key for level in levels])
    if len(levels) == 1:
        return f"label {levels[0].label} of topology key {keys}"
    return f"labels {', '.join(level.label for level in levels)} of topology keys {keys}"


def uncovered(coverage: LabelCoverage) -> list[str]:
    """Count and name the nodes that lack a label, one sentence for each level that hides some."""
    by_count: dict[int, LevelCoverage] = {}
    for level in coverage.levels:
        if level.hidden:
            by_count.setdefault(level.hidden, level)
    return [_hidden_sentence(level, coverage.nodes) for level in by_count.values()]


def _hidden_sentence(level: LevelCoverage, nodes: int) -> str:
    verb, pronoun = agree(level.hidden, "lacks", "lack"), agree(level.hidden, "it", "them")
    names = level.hidden_names
    listed = f": {plain_listing(names, limit=len(names), total=level.hidden)}" if names else ""
    return (
        f"{level.hidden} of the pool's {count_of(nodes, 'node')} {verb} label {level.level.label} of key "
        f'"{level.level.key}" or of a broader one, so the scheduler does not see {pronoun} for these tasks'
        f"{listed}."
    )
