"""What each row of a pool's topology keys finds on the pool's nodes, while somebody edits the rows.

Whoever names levels guesses at what nodes carry, and a wrong guess is silent: a label that no node carries
makes its key useless, a label that some lack hides them, a label out of order makes domains that do not nest.
So each row is told apart, and labels that would fit are offered with the place where they would fit. Pure
over nodes that were only counted, by the values they carry; which rows are well-formed is the caller's.

A label *nests* with a level if each of its values stands under one value of the level (then it is narrower)
or the other way round (then it is broader); a label that does neither cannot stand in the list at all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduling.coverage import SharedValue, count
from scheduling.levels import CLIQUE_LABELS, HOSTNAME_LABEL, Domain, Level, look_alike

MAX_SUGGESTIONS = 8


@dataclass(frozen=True, slots=True)
class SeenLabel:
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
    other: SeenLabel | None = None


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A label that nests with every row. ``rank`` is the place where it would stand, 0 the broadest."""

    seen: SeenLabel
    rank: int
    key: str


def cover_rows(
    places: Mapping[Domain, int],
    levels: Sequence[Level],
    *,
    paths: bool,
    seen: Mapping[str, SeenLabel],
) -> tuple[RowCoverage, ...]:
    """Look at each row, given how many nodes stand at each place and every label that nodes carry."""
    found = count(places, tuple(levels), paths=paths)
    rows, above = [], 0
    for rank, one in enumerate(found.levels):
        other = look_alike(one.level.label, seen.keys()) if one.lacking == found.nodes else None
        rows.append(
            RowCoverage(
                level=one.level,
                nodes=found.nodes,
                carrying=found.nodes - one.lacking,
                domains=_domains(places, rank, paths=paths),
                hidden=one.hidden,
                more_hidden=max(0, one.hidden - above),
                shared=tuple(value for value in found.shared if value.level == one.level),
                other=seen[other] if other else None,
            )
        )
        above = one.hidden if paths else above
    return tuple(rows)


def _domains(places: Mapping[Domain, int], rank: int, *, paths: bool) -> int:
    first = 0 if paths else rank
    parts = {place[first : rank + 1] for place in places}
    return sum(None not in part for part in parts)


def candidates(
    seen: Mapping[str, SeenLabel], levels: Sequence[Level], *, nodes: int, most: int
) -> tuple[SeenLabel, ...]:
    """Labels worth a look as further levels: those on most nodes first, then those with fewer values.

    A label with one value everywhere or one of its own on every node divides nothing; the host's, which is
    offered all the same, needs no look.
    """
    taken = {level.label for level in levels}
    worth = [
        one
        for one in seen.values()
        if one.label not in taken
        and 2 * one.nodes >= nodes
        and one.label != HOSTNAME_LABEL
        and (1 < one.values < one.nodes or _is_known(one.label))
    ]
    return tuple(sorted(worth, key=lambda one: (-one.nodes, one.values, one.label))[:most])


def suggest(
    places: Mapping[Domain, int],
    levels: Sequence[Level],
    offered: Sequence[SeenLabel],
    *,
    paths: bool,
    host: SeenLabel | None,
) -> tuple[Suggestion, ...]:
    """Those of the labels offered that nest with every level, in the order in which they would stand.

    ``host`` is the host's own label if nodes carry it: it nests with everything and stands last.

    ``places`` have the values of the levels and, after them, of what is offered. A label that names the very
    same domains as a level adds nothing and is left out; a level that no node shows is in nobody's way.
    """
    found = []
    for at, one in enumerate(offered, start=len(levels)):
        rank = _rank(places, len(levels), at, paths=paths)
        if rank is not None:
            found.append(Suggestion(one, rank, key_word(one.label)))
    ordered = sorted(found, key=lambda each: (each.rank, each.seen.values, each.seen.label))
    if host and HOSTNAME_LABEL not in {level.label for level in levels}:
        ordered = [*ordered[: MAX_SUGGESTIONS - 1], Suggestion(host, len(levels), key_word(host.label))]
    return tuple(ordered[:MAX_SUGGESTIONS])


def _rank(places: Mapping[Domain, int], levels: int, at: int, *, paths: bool) -> int | None:
    """Where the value at ``at`` stands among the first ``levels`` of a place; None where it does not nest."""
    broader, narrower = -1, levels
    for level in range(levels):
        first = 0 if paths else level
        pairs = {(place[first : level + 1], place[at]) for place in places}
        known = {(domain, value) for domain, value in pairs if None not in domain and value is not None}
        if not known:
            continue
        inside = len({value for _, value in known}) == len(known)
        around = len({domain for domain, _ in known}) == len(known)
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
