"""The coverage of each row of topology keys by the pool's nodes, while an administrator edits the rows.

An administrator may not know which labels the nodes carry, and mistakes are silent: a label that no node
carries makes its key useless, a label that some nodes lack hides those nodes, and labels in the wrong order
give domains that do not nest. So the editor shows a result for each row, and suggests further labels with
their place in the order. Pure over nodes that are counted by their label values; the caller leaves out
malformed rows.

A label *nests* with a level if each of its values exists under one value of the level (then it is narrower)
or the other way round (then it is broader). A label that does neither cannot be in the list.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduling.topology.coverage import SharedValue, count
from scheduling.topology.levels import CLIQUE_LABELS, HOSTNAME_LABEL, DomainPath, Level, look_alike

MAX_SUGGESTIONS = 8


@dataclass(frozen=True, slots=True)
class NodeLabel:
    """A label, the number of nodes that carry it, and the number of its values."""

    label: str
    nodes: int
    values: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCoverage:
    """The coverage of one row by ``nodes`` nodes.

    ``carrying`` counts nodes with its label. ``hidden`` counts nodes that requirements on it do not see,
    because they lack its label or, where domains are paths, a broader one; ``more_hidden`` are those of them
    that the row above does not hide already. ``other`` is a similar label that nodes carry, if none carries
    the row's own.
    """

    level: Level
    nodes: int
    carrying: int
    domains: int
    hidden: int
    more_hidden: int
    shared: tuple[SharedValue, ...] = ()
    other: NodeLabel | None = None


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A label that nests with every row. ``rank`` is its place among them, 0 the broadest."""

    node_label: NodeLabel
    rank: int
    key: str


def cover_rows(
    places: Mapping[DomainPath, int],
    levels: Sequence[Level],
    *,
    paths: bool,
    node_labels: Mapping[str, NodeLabel],
) -> tuple[RowCoverage, ...]:
    """The coverage of each row, from the number of nodes at each place and the labels of all nodes."""
    coverage = count(places, tuple(levels), paths=paths)
    rows, above = [], 0
    for rank, row in enumerate(coverage.levels):
        other = look_alike(row.level.label, node_labels.keys()) if row.lacking == coverage.nodes else None
        rows.append(
            RowCoverage(
                level=row.level,
                nodes=coverage.nodes,
                carrying=coverage.nodes - row.lacking,
                domains=_domains(places, rank, paths=paths),
                hidden=row.hidden,
                more_hidden=max(0, row.hidden - above),
                shared=tuple(value for value in coverage.shared if value.level == row.level),
                other=node_labels[other] if other else None,
            )
        )
        above = row.hidden if paths else above
    return tuple(rows)


def _domains(places: Mapping[DomainPath, int], rank: int, *, paths: bool) -> int:
    first = 0 if paths else rank
    parts = {place[first : rank + 1] for place in places}
    return sum(None not in part for part in parts)


def candidates(
    node_labels: Mapping[str, NodeLabel], levels: Sequence[Level], *, nodes: int, most: int
) -> tuple[NodeLabel, ...]:
    """Labels to consider as further levels: those on most nodes first, then those with fewer values.

    A label with one value, or with a value of its own on every node, divides nothing and is left out. So is
    the hostname's, which ``suggest`` adds without a check.
    """
    used = {level.label for level in levels}
    worth = [
        label
        for label in node_labels.values()
        if label.label not in used
        and 2 * label.nodes >= nodes
        and label.label != HOSTNAME_LABEL
        and (1 < label.values < label.nodes or _is_known(label.label))
    ]
    return tuple(sorted(worth, key=lambda label: (-label.nodes, label.values, label.label))[:most])


def suggest(
    places: Mapping[DomainPath, int],
    levels: Sequence[Level],
    offered: Sequence[NodeLabel],
    *,
    paths: bool,
    host: NodeLabel | None,
) -> tuple[Suggestion, ...]:
    """The offered labels that nest with every level, in the order of their places.

    ``host`` is the hostname's label if nodes carry it: it nests with every level and is the narrowest.
    ``places`` have the values of the levels and, after them, those of the offered labels. A label with the
    same domains as a level is left out; a level that no node carries does not count.
    """
    suggestions = []
    for at, label in enumerate(offered, start=len(levels)):
        rank = _rank(places, len(levels), at, paths=paths)
        if rank is not None:
            suggestions.append(Suggestion(label, rank, key_word(label.label)))
    ordered = sorted(suggestions, key=_place)
    if host and HOSTNAME_LABEL not in {level.label for level in levels}:
        ordered = [*ordered[: MAX_SUGGESTIONS - 1], Suggestion(host, len(levels), key_word(host.label))]
    return tuple(ordered[:MAX_SUGGESTIONS])


def _place(suggestion: Suggestion) -> tuple[int, int, str]:
    """Sort key: broader levels first, then labels with fewer values."""
    return suggestion.rank, suggestion.node_label.values, suggestion.node_label.label


def _rank(places: Mapping[DomainPath, int], levels: int, at: int, *, paths: bool) -> int | None:
    """The place of the value at ``at`` among the first ``levels`` of a place; None if it does not nest."""
    broader, narrower = -1, levels
    for level in range(levels):
        first = 0 if paths else level
        values = ((place[first : level + 1], place[at]) for place in places)
        pairs = {(domain, value) for domain, value in values if None not in domain and value is not None}
        if not pairs:
            continue
        inside = len({value for _, value in pairs}) == len(pairs)
        around = len({domain for domain, _ in pairs}) == len(pairs)
        if inside == around:
            return None
        broader, narrower = (level, narrower) if inside else (broader, min(narrower, level))
    return broader + 1 if broader < narrower else None


def key_word(label: str) -> str:
    """A key to suggest for a label: its name without prefix, or the usual word."""
    if label in CLIQUE_LABELS:
        return "clique"
    if label == HOSTNAME_LABEL:
        return "host"
    return label.rpartition("/")[2]


def _is_known(label: str) -> bool:
    return label in CLIQUE_LABELS or label.startswith("topology.kubernetes.io/")
