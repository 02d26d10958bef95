"""News that no event brings: a group waits for long, and a verdict on a waiting group became ``never``.

Both are sought among workflows that have, or whose pool has, a target for them, and not for what is in the
outbox already. A group is judged as its explanation judges it, a few groups in a turn, in no order.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import structlog
from django.db import connection

from workflows.explain.reasons import Why
from workflows.explain.report import JUDGED_REASONS
from workflows.feasibility.verdict.report import never_sentence
from workflows.lifecycle.statuses import LIVE_ORDER, WORKFLOW_LIVE, quoted
from workflows.models import TaskGroup
from workflows.news.outbox import MOST_OF_A_KIND, NewsChange, announce
from workflows.selectors import group_values
from workflows.services.steps import database_now
from workflows.values.placement import GroupPlacement

MOST_WAITS = 200
MOST_JUDGED = 10

log = structlog.get_logger(__name__)

_WAITING = f"""
    SELECT DISTINCT ON (w.uuid, g.attempt_number) g.uuid, clock_timestamp(),
           coalesce(extract(epoch FROM clock_timestamp() - g.waiting_since), 0)
      FROM workflows_workflow AS w
      LEFT JOIN pools_pool AS p ON p.name = w.pool_name
      JOIN workflows_taskgroup AS g ON g.workflow_id = w.uuid
     CROSS JOIN LATERAL jsonb_array_elements(w.notify || coalesce(p.notify, '[]')) AS t
     WHERE w.status IN ({quoted(WORKFLOW_LIVE)}) AND g.status IN ({quoted(LIVE_ORDER)})
       AND (w.notify @> %(has)s OR p.notify @> %(has)s) AND t->'kinds' ? %(kind)s
       AND g.waiting_why = ANY(%(reasons)s) AND g.attempt_number <= {MOST_OF_A_KIND}
       AND (%(kind)s <> 'waits'
            OR g.waiting_since < clock_timestamp() - make_interval(secs => (t->>'waits_after')::float8))
       AND NOT EXISTS (SELECT FROM workflows_newsitem AS n
                        WHERE n.workflow_uuid = w.uuid AND n.target @> (t - 'kinds' - 'waits_after')
                          AND n.change = %(kind)s || ':' || g.attempt_number)
     ORDER BY w.uuid, g.attempt_number,
              CASE WHEN %(kind)s = 'never' THEN random() ELSE extract(epoch FROM g.waiting_since) END
"""  # noqa: S608 -- constants

_SOME_WAITING = f"SELECT * FROM ({_WAITING}) AS each ORDER BY random() LIMIT %(most)s"  # noqa: S608


@dataclass(frozen=True, slots=True)
class _LongWait:
    group: UUID
    now: datetime
    seconds: float


def announce_waits() -> None:
    """Record news of workflows a group of which waits for longer than a target says, once an attempt."""
    reasons = [why.value for why in Why if why is not Why.UPSTREAM]
    waits = {wait.group: wait for wait in _waiting("waits", reasons, most=MOST_WAITS)}
    announce(
        [
            _change("waits", group, group.waiting_reason, waits[group.pk])
            for group in TaskGroup.objects.filter(pk__in=waits)
        ]
    )


def announce_nevers() -> None:
    """Record news of groups that, by what is observed now, can never be placed."""
    reasons = [why.value for why in JUDGED_REASONS]
    waits = {wait.group: wait for wait in _waiting("never", reasons, most=MOST_JUDGED)}
    for group in TaskGroup.objects.filter(pk__in=waits).select_related("backend"):
        if sentence := _never_sentence(group):
            announce([_change("never", group, sentence, waits[group.pk])])


def _waiting(kind: str, reasons: list[str], *, most: int) -> list[_LongWait]:
    values: dict[str, Any] = {
        "kind": kind,
        "reasons": reasons,
        "has": f'[{{"kinds": ["{kind}"]}}]',
        "most": most,
    }
    with connection.cursor() as cursor:
        cursor.execute(_SOME_WAITING, values)
        return [_LongWait(*row) for row in cursor.fetchall()]


def _never_sentence(group: TaskGroup) -> str:
    try:
        values = group_values(group, GroupPlacement.from_json(group.placement, group.optional_placement))
    except ValueError as error:  # of a newer release, whose workers judge it
        log.warning("group_not_judged", group=str(group.pk), error=str(error))
        return ""
    cluster = values.placement.terms.cluster_uid or group.backend.cluster_id or ""
    return never_sentence(values, cluster=cluster, now=database_now())


def _change(kind: str, group: TaskGroup, sentence: str, wait: _LongWait) -> NewsChange:
    return NewsChange(
        workflow=group.workflow_id,
        kind=kind,
        key=f"{kind}:{group.attempt_number}",
        time=wait.now,
        sentence=f"Group {group.name}: {sentence}",
        group=group.name,
        waited=float(wait.seconds),
    )
