"""How many requirements were met in a pool, key by key.

Read from the last placement that each group keeps (``placed``), so it covers the groups that are
still in the database; the counter ``osmo_placed_groups`` counts every placement.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from scheduling.fit.outcome import PlacementOutcome

_OUTCOMES = """
    WITH placed AS MATERIALIZED (
        SELECT g.placement_result
          FROM workflows_taskgroup g JOIN workflows_workflow w ON w.uuid = g.workflow_id
         WHERE w.pool_name = %s AND w.submit_time > %s AND g.placement_result IS NOT NULL)
    SELECT NULL, NULL, placement_result->>'outcome', count(*) FROM placed GROUP BY 3
     UNION ALL
    SELECT of_set->>'key', (of_set->>'required')::boolean, of_set->>'outcome', count(*)
      FROM placed CROSS JOIN LATERAL jsonb_array_elements(placement_result->'sets') AS of_set
     GROUP BY 1, 2, 3"""
"""Of groups, without a key, and of their co-location sets."""

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


def outcomes_in(pool: str, *, since: datetime) -> PoolOutcomes:
    """The placements of groups that were submitted to a pool since then. One query."""
    with connection.cursor() as cursor:
        cursor.execute(_OUTCOMES, [pool, since])
        rows = cursor.fetchall()
    groups = dict.fromkeys(OUTCOMES, 0)
    keys: dict[str, dict[str, Any]] = {}
    for key, required, outcome, count in rows:
        if key is None:
            groups[outcome] = count
            continue
        counts = keys.setdefault(key, {})
        kind, met = ("required", "required_held") if required else ("preferred", "preferred_had")
        counts[kind] = counts.get(kind, 0) + count
        counts[met] = counts.get(met, 0) + (count if outcome == PlacementOutcome.MATCH else 0)
    return PoolOutcomes(groups, tuple(KeyOutcomes(key=key, **keys[key]) for key in sorted(keys)))
