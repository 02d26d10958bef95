"""News that no event brings: a group waits for long, and a verdict on a waiting group became ``never``.

Both are sought among workflows that have, or whose pool has, a target for them, and not for what is in the
outbox already. A group is judged as its explanation judges it, a few groups in a turn, in no order.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

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
from workflows.values.placement import VERSIONS, GroupPlacement

MOST_WAITS = 200
MOST_JUDGED = 10

_WAITING = f"""
    SELECT DISTINCT ON (w.uuid, g.attempt_number) g.uuid, clock_timestamp() AS now,
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
                        WHERE n.workflow_uuid = w.uuid AND n.target = t - 'kinds' - 'waits_after'
                          AND n.change = %(kind)s || ':' || g.attempt_number)
     ORDER BY w.uuid, g.attempt_number,
              CASE WHEN %(kind)s = 'never' THEN random() ELSE extract(epoch FROM g.waiting_since) END
"""  # noqa: S608 -- constants

_SOME_WAITING = f"SELECT * FROM ({_WAITING}) AS each ORDER BY random() LIMIT %(most)s"  # noqa: S608


def announce_waits() -> None:
    """Record news of workflows a group of which waits for longer than a target says, once an attempt."""
    reasons = [why for why in Why if why is not Why.UPSTREAM]
    waits = _waiting("waits", reasons, most=MOST_WAITS)
    announce(
        [_change("waits", group, group.waiting_reason, since=waits[group.pk]) for group in _groups(waits)]
    )


def announce_nevers() -> None:
    """Record news of groups that, by what is observed now, can never be placed."""
    waits = _waiting("never", JUDGED_REASONS, most=MOST_JUDGED)
    for group in _groups(waits).filter(placement__version__in=VERSIONS):
        values = group_values(group, GroupPlacement.from_json(group.placement, group.optional_placement))
        cluster = values.placement.terms.cluster_uid or group.backend.cluster_id or ""
        if sentence := never_sentence(values, cluster=cluster, now=database_now()):
            announce([_change("never", group, sentence, since=waits[group.pk])])


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
        key=f"{kind}:{group.attempt_number}",
        time=now,
        sentence=f"Group {group.name}: {sentence}",
        group=group.name,
        waited=float(waited),
    )
