"""News that no event brings: a group waits for long, and a verdict on a waiting group became ``never``.

Both are sought among workflows that have, or whose pool has, a target for them, and not for what is in the
outbox already. A group is judged as its explanation judges it, a few groups of each submitter in a turn.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

import structlog
from django.db import connection
from django.db.models import QuerySet

from workflows.explain.reasons import Why
from workflows.explain.report import JUDGED_REASONS
from workflows.feasibility.verdict.report import never_sentence
from workflows.lifecycle.statuses import LIVE_ORDER, WORKFLOW_LIVE, quoted
from workflows.models import TaskGroup
from workflows.news.outbox import MOST_OF_A_KIND, NewsChange, announce
from workflows.selectors import group_values
from workflows.services.steps import database_now
from workflows.values.placement import VERSION, GroupPlacement

MOST_WAITS = 200
MOST_JUDGED = 10

log = structlog.get_logger(__name__)

_NOT_YET = frozenset({Why.UPSTREAM, Why.CREATING, Why.STARTING})
"""A group that waits for others of its workflow, or goes on, is not overdue."""

_SINCE = "greatest(g.waiting_since, g.processing_start_time)"
"""When a group's own wait began: not while it waited for groups upstream."""

_SOME_WAITING = f"""
    WITH targets AS MATERIALIZED (
        SELECT w.uuid AS workflow, w.submitted_by AS owner, t - 'kinds' - 'waits_after' AS target,
               (t->>'waits_after')::float8 AS after
          FROM workflows_workflow AS w
          LEFT JOIN pools_pool AS p ON p.name = w.pool_name
         CROSS JOIN LATERAL jsonb_array_elements(w.notify || coalesce(p.notify, '[]')) AS t
         WHERE w.status IN ({quoted(WORKFLOW_LIVE)}) AND (w.notify @> %(has)s OR p.notify @> %(has)s)
           AND t->'kinds' ? %(kind)s
           AND (SELECT count(*) FROM workflows_newsitem AS n
                 WHERE n.workflow_uuid = w.uuid AND n.kind = %(kind)s
                   AND n.target = t - 'kinds' - 'waits_after') < {MOST_OF_A_KIND}
    ), overdue AS (
        SELECT DISTINCT ON (g.uuid) g.uuid, t.owner, clock_timestamp() AS now,
               coalesce(extract(epoch FROM clock_timestamp() - {_SINCE}), 0) AS waited
          FROM targets AS t
          JOIN workflows_taskgroup AS g ON g.workflow_id = t.workflow
         WHERE g.status IN ({quoted(LIVE_ORDER)}) AND g.waiting_why = ANY(%(reasons)s)
           AND (%(kind)s <> 'waits' OR {_SINCE} < clock_timestamp() - make_interval(secs => t.after))
           AND NOT EXISTS (SELECT FROM workflows_newsitem AS n
                            WHERE n.workflow_uuid = t.workflow AND n.target = t.target
                              AND n.change = concat_ws(':', %(kind)s, replace(g.uuid::text, '-', ''),
                                                       g.attempt_number))
    ), ranked AS (
        SELECT *, row_number() OVER (PARTITION BY owner ORDER BY random()) AS place FROM overdue
    )
    SELECT uuid, now, waited FROM ranked ORDER BY place, random() LIMIT %(most)s
"""  # noqa: S608 -- constants
"""An equal share of each submitter's groups, chosen at random."""


def announce_waits() -> None:
    """Record news of groups that wait for longer than a target says, once an attempt."""
    waits = _waiting("waits", frozenset(Why) - _NOT_YET, most=MOST_WAITS)
    announce(
        [_change("waits", group, group.waiting_reason, since=waits[group.pk]) for group in _groups(waits)]
    )


def announce_nevers() -> None:
    """Record news of groups that, by what is observed now, can never be placed."""
    waits = _waiting("never", JUDGED_REASONS, most=MOST_JUDGED)
    for group in _groups(waits).filter(placement__version=VERSION):
        try:
            sentence = _never_sentence(group)
        except Exception:
            log.exception("group_not_judged", group=group.pk.hex)
            continue
        if sentence:
            announce([_change("never", group, sentence, since=waits[group.pk])])


def _never_sentence(group: TaskGroup) -> str:
    values = group_values(group, GroupPlacement.from_json(group.placement))
    cluster = values.placement.terms.cluster_uid or group.backend.cluster_id or ""
    return never_sentence(values, cluster=cluster, now=database_now())


def _waiting(kind: str, reasons: Iterable[Why], *, most: int) -> dict[UUID, tuple[datetime, float]]:
    """Groups of which nothing is recorded, with the present time and for how many seconds each waits."""
    values: dict[str, Any] = {"kind": kind, "has": f'[{{"kinds": ["{kind}"]}}]', "most": most}
    with connection.cursor() as cursor:
        cursor.execute(_SOME_WAITING, values | {"reasons": [why.value for why in reasons]})
        return {group: (now, seconds) for group, now, seconds in cursor.fetchall()}


def _groups(groups: Iterable[UUID]) -> QuerySet[TaskGroup]:
    return TaskGroup.objects.filter(pk__in=list(groups)).select_related("backend")


def _change(kind: str, group: TaskGroup, sentence: str, *, since: tuple[datetime, float]) -> NewsChange:
    now, waited = since
    return NewsChange(
        workflow=group.workflow_id,
        kind=kind,
        key=f"{kind}:{group.pk.hex}:{group.attempt_number}",
        time=now,
        sentence=f"Group {group.name}: {sentence}",
        group=group.name,
        waited=float(waited),
    )
