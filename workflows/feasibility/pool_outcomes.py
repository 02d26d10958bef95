"""How many requirements were met in a pool, key by key.

Read from the last placement that each group keeps (``feasibility.placed``), so it covers the groups that are
still in the database; the counter ``osmo_placed_groups`` counts every placement.
"""

from dataclasses import dataclass
from typing import Any

from django.db import connection

from scheduling.fit.outcome import PlacementOutcome

_GROUPS = """
    SELECT g.got->>'outcome', count(*)
      FROM workflows_taskgroup g JOIN workflows_workflow w ON w.uuid = g.workflow_id
     WHERE w.pool_name = %s AND w.submit_time > now() - make_interval(days => %s) AND g.got IS NOT NULL
     GROUP BY 1"""
_SETS = """
    SELECT placed->>'key', (placed->>'required')::boolean, placed->>'outcome', count(*)
      FROM workflows_taskgroup g JOIN workflows_workflow w ON w.uuid = g.workflow_id
           CROSS JOIN LATERAL jsonb_array_elements(g.got->'sets') AS placed
     WHERE w.pool_name = %s AND w.submit_time > now() - make_interval(days => %s) AND g.got IS NOT NULL
     GROUP BY 1, 2, 3"""

OUTCOMES = tuple(outcome.value for outcome in PlacementOutcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOutcomes:
    """Placed co-location sets that named a key, and how many of them stand together."""

    key: str
    required: int = 0
    required_held: int = 0
    preferred: int = 0
    preferred_had: int = 0


@dataclass(frozen=True, slots=True)
class PoolOutcomes:
    """Groups by outcome, all three always there; keys in order of their names."""

    groups: dict[str, int]
    keys: tuple[KeyOutcomes, ...]


def outcomes_in(pool: str, *, days: int) -> PoolOutcomes:
    """The placements of groups that were submitted to a pool in the last ``days`` days. Two queries."""
    with connection.cursor() as cursor:
        cursor.execute(_GROUPS, [pool, days])
        groups = dict.fromkeys(OUTCOMES, 0) | dict(cursor.fetchall())
        cursor.execute(_SETS, [pool, days])
        rows = cursor.fetchall()
    keys: dict[str, dict[str, Any]] = {}
    for key, required, outcome, count in rows:
        counts = keys.setdefault(key, {})
        kind, met = ("required", "required_held") if required else ("preferred", "preferred_had")
        counts[kind] = counts.get(kind, 0) + count
        counts[met] = counts.get(met, 0) + (count if outcome == PlacementOutcome.MATCH else 0)
    return PoolOutcomes(groups, tuple(KeyOutcomes(key=key, **keys[key]) for key in sorted(keys)))
