"""The coverage of a pool's keys on its nodes, before anything is saved.

The editor of keys shows each row's coverage as the form stands: with its backend, its node selector and its
rows, however unfinished. Unreadable parts are named and left out. A fixed number of queries, none of them to
a cluster, and no write.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pools import selectors
from pools.clusters.capabilities import capabilities_of
from pools.models import Pool
from pools.values.freshness import NEVER_OBSERVED, Age, Freshness
from scheduling.capabilities import Capabilities, check_pool_levels
from scheduling.errors import Fault
from scheduling.kubernetes_syntax import is_label_key
from scheduling.topology.key_rows import NodeLabel, RowCoverage, Suggestion, candidates, cover_rows, suggest
from scheduling.topology.levels import HOSTNAME_LABEL, Level, Levels, check_levels

MAX_CANDIDATES = 24
"""Labels considered as suggestions: one query groups the nodes by all of them."""

MAX_ROWS = 32
"""Rows with coverage; a pool has at most 16 keys."""

MAX_OFFERED = 200
"""Labels in the list that a browser completes from."""


@dataclass(frozen=True, slots=True)
class DraftRow:
    """A row as it stands in the form; ``prefix`` is its name there."""

    prefix: str
    key: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCoverage:
    """The coverage of all rows."""

    unknown: str = ""
    """Why the nodes are unknown; empty if they are known."""

    is_awaited: bool = False
    """Whether they will be known by themselves: the cluster was registered a moment ago."""

    nodes: int = 0
    freshness: Freshness = NEVER_OBSERVED

    order: tuple[str, ...] = ()
    """The rows' prefixes, broadest first."""

    rows: Mapping[str, RowCoverage] = field(default_factory=dict)
    """By the row's prefix."""

    faults: Mapping[str, Sequence[Fault]] = field(default_factory=dict)
    """By the row's prefix, those of the whole under ""."""

    suggestions: tuple[Suggestion, ...] = ()
    offered: tuple[NodeLabel, ...] = ()


def key_coverage(pool: Pool | None, rows: Sequence[DraftRow], *, unknown: str = "") -> KeyCoverage:
    """The coverage of rows, broadest first, on the nodes of a pool that need not be saved.

    ``pool`` is None, or ``unknown`` has the reason, where the form does not say which nodes are the pool's.
    """
    rows = [row for row in rows if row.key or row.label][:MAX_ROWS]
    capabilities = capabilities_of(pool.backend) if pool else None
    faults = _faults(rows, capabilities)
    order = tuple(row.prefix for row in rows)
    unknown = unknown or ("" if pool else "Choose a backend to see the labels of its nodes.")
    if unknown or pool is None or capabilities is None:
        return KeyCoverage(unknown=unknown, order=order, faults=faults)
    freshness = selectors.freshness_of(pool.backend.cluster_id)
    if freshness.age is Age.NEVER:
        unknown = f'The nodes of backend "{pool.backend.name}" have not been listed yet.'
        return KeyCoverage(unknown=unknown, is_awaited=True, order=order, faults=faults)
    labels = selectors.label_counts(pool)
    sound = [row for row in rows if is_label_key(row.label)]
    levels = tuple(Level(row.key, row.label) for row in sound)
    places = selectors.pool_places(pool, levels)
    paths = capabilities.by_paths
    covered = cover_rows(places, levels, paths=paths, node_labels=labels)
    return KeyCoverage(
        nodes=places.total(),
        freshness=freshness,
        order=order,
        rows={row.prefix: row_coverage for row, row_coverage in zip(sound, covered, strict=True)},
        faults=faults,
        suggestions=_suggestions(pool, levels, _without(labels, covered), nodes=places.total(), paths=paths),
        offered=tuple(
            sorted(labels.values(), key=lambda counts: (-counts.nodes, counts.label))[:MAX_OFFERED]
        ),
    )


def _faults(rows: Sequence[DraftRow], capabilities: Capabilities | None) -> dict[str, list[Fault]]:
    """The faults that saving would report about the rows themselves, by row."""
    levels: Levels = tuple(Level(row.key, row.label) for row in rows)
    faults = check_levels(levels, path=())
    if capabilities is not None:
        faults = [*faults, *check_pool_levels(levels, capabilities=capabilities, path=())]
    by_row: dict[str, list[Fault]] = {}
    for fault in faults:
        place = fault.path[0] if fault.path else None
        prefix = rows[place].prefix if isinstance(place, int) else ""
        by_row.setdefault(prefix, []).append(fault)
    return by_row


def _without(labels: Mapping[str, NodeLabel], covered: Sequence[RowCoverage]) -> Mapping[str, NodeLabel]:
    """The labels except those that a row is offered as its look-alike."""
    alternatives = {row.other.label for row in covered if row.other}
    return {label: counts for label, counts in labels.items() if label not in alternatives}


def _suggestions(
    pool: Pool, levels: Levels, labels: Mapping[str, NodeLabel], *, nodes: int, paths: bool
) -> tuple[Suggestion, ...]:
    offered = candidates(labels, levels, nodes=nodes, most=MAX_CANDIDATES)
    further = tuple(Level(candidate.label, candidate.label) for candidate in offered)
    places = selectors.pool_places(pool, (*levels, *further)) if offered else {}
    return suggest(places, levels, offered, paths=paths, host=labels.get(HOSTNAME_LABEL))
