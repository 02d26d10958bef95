"""What each row of a pool's topology keys finds on the pool's nodes, while an administrator edits the rows.

An administrator who names levels guesses at what nodes carry, and a wrong guess is silent: a label that no
node carries makes its key useless, a label that some lack hides them, a label out of order makes domains
that do not nest.
So each row has its own result, and labels that would fit are offered with the place where they would fit.
Pure over nodes that were only counted, by the values they carry; which rows are well-formed is the caller's.

A label *nests* with a level if each of its values stands under one value of the level (then it is narrower)
or the other way round (then it is broader); a label that does neither cannot stand in the list at all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduling.coverage import SharedValue, count
from scheduling.levels import CLIQUE_LABELS, HOSTNAME_LABEL, Domain, Level, look_alike

MAX_SUGGESTIONS = 8


@dataclass(frozen=True, slots=True)
class NodeLabel:
    """A label as nodes carry it: on how many of them, with how many values."""

    label: str
    nodes: int
    values: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCoverage:
    """What one row finds on ``nodes`` nodes.

    ``carrying`` carry its label. ``hidden`` are invisible to requirements on it, for lack of its label or,
    where domains are paths, of a broader one; ``more_hidden`` of them are not so to the row above already.
    ``other`` is a look-alike that nodes do carry, where none carries the row's own label.
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
    """A label that nests with every row. ``rank`` is the place where it would stand, 0 the broadest."""

    node_label: NodeLabel
    rank: int
    key: str


def cover_rows(
    places: Mapping[Domain, int],
    levels: Sequence[Level],
    *,
    paths: bool,
    node_labels: Mapping[str, NodeLabel],
) -> tuple[RowCoverage, ...]:
    """Look at each row, given how many nodes stand at each place and every label that nodes carry."""
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


def _domains(places: Mapping[Domain, int], rank: int, *, paths: bool) -> int:
    first = 0 if paths else rank
    parts = {place[first : rank + 1] for place in places}
    return sum(None not in part for part in parts)


def candidates(
    node_labels: Mapping[str, NodeLabel], levels: Sequence[Level], *, nodes: int, most: int
) -> tuple[NodeLabel, ...]:
    """Labels worth a look as further levels: those on most nodes first, then those with fewer values.

    A label with one value everywhere or one of its own on every node divides nothing; the host's, which is
    offered all the same, needs no look.
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
    places: Mapping[Domain, int],
    levels: Sequence[Level],
    offered: Sequence[NodeLabel],
    *,
    paths: bool,
    host: NodeLabel | None,
) -> tuple[Suggestion, ...]:
    """Those of the labels offered that nest with every level, in the order in which they would stand.

    ``host`` is the host's own label if nodes carry it: it nests with everything and stands last.

    ``places`` have the values of the levels and, after them, of what is offered. A label that names the very
    same domains as a level adds nothing and is left out; a level that no node shows does not count.
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


def _rank(places: Mapping[Domain, int], levels: int, at: int, *, paths: bool) -> int | None:
    """Where the value at ``at`` stands among the first ``levels`` of a place; None where it does not nest."""
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
    """A word for users to a label: its name without prefix, and the usual word where there is one."""
    if label in CLIQUE_LABELS:
        return "clique"
    if label == HOSTNAME_LABEL:
        return "host"
    return label.rpartition("/")[2]


def _is_known(label: str) -> bool:
    return label in CLIQUE_LABELS or label.startswith("topology.kubernetes.io/")
