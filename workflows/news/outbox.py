"""The outbox: news that is recorded in the transaction of the change that it is about, and sent later.

One statement makes an item for each target of the workflow, and of its pool as it is now, that has this kind.
A unique key of workflow, target and change keeps a second one out. Items of one workflow go to one target in
their order: only the first that is neither sent nor given up is due. A worker takes items by moving the time
at which they are due, so those of a worker that dies come again, with the same id; receivers drop what they
have. Targets of each owner get an equal share of a turn, and those that fail come after the others.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from pools.values.news_targets import CHANNELS, host_of
from web.database.model_rows import Columns
from workflows.metrics import NEWS
from workflows.models import NewsItem, Workflow

BATCH = 64
OF_AN_OWNER = 16
LEASE_SECONDS = 120.0
"""More than a slow mail server takes for an e-mail."""

FIRST_SECONDS = 10.0
LONGEST_SECONDS = 3600.0
GIVE_UP_SECONDS = 86_400.0
MOST_OF_A_KIND = 20
"""Items of one workflow and kind for one target; what repeats more often is on the workflow's timeline."""

MOST_LISTED = 100
MOST_CHARACTERS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class NewsChange:
    """A change that somebody may want to hear of; ``key`` names it within its workflow."""

    workflow: UUID
    kind: str
    key: str
    time: datetime
    sentence: str
    group: str = ""
    status: str = ""

    waited: float = 0.0
    """Seconds; only targets whose ``waits_after`` is over hear of it."""

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "time": self.time.isoformat(),
            "sentence": self.sentence[:MOST_CHARACTERS],
            "group": self.group or None,
            "status": self.status or None,
        }


_ANNOUNCE = f"""
    INSERT INTO workflows_newsitem (uuid, workflow_uuid, kind, change, target, target_key, owner, facts,
                                    created_at, due_at, state, tries, error)
    SELECT gen_random_uuid(), workflow, kind, change, target, target_key, owner, facts,
           clock_timestamp(), clock_timestamp(), 'waiting', 0, ''
      FROM (SELECT w.uuid AS workflow, e.kind, e.change, t.target, t.target_key, t.owner, e.place, t.number,
                   jsonb_build_object('name', w.name, 'pool', w.pool_name, 'user', w.submitted_by)
                   || e.facts AS facts,
                   row_number() OVER (PARTITION BY w.uuid, e.kind, t.target_key ORDER BY e.place) AS nth
              FROM unnest(%(workflows)s::uuid[], %(kinds)s::text[], %(keys)s::text[], %(facts)s::jsonb[],
                          %(waits)s::float8[])
                   WITH ORDINALITY AS e(workflow, kind, change, facts, waited, place)
              JOIN workflows_workflow AS w ON w.uuid = e.workflow
              LEFT JOIN pools_pool AS p ON p.name = w.pool_name
             CROSS JOIN LATERAL (
                   SELECT stored, md5(owner || stored::text), owner, number
                     FROM (SELECT each - 'kinds' - 'waits_after' AS stored, each, owner,
                                  row_number() OVER () AS number
                             FROM (SELECT jsonb_array_elements(w.notify), 'user:' || w.submitted_by
                                    UNION ALL
                                   SELECT jsonb_array_elements(p.notify), 'pool:' || p.name) AS a(each, owner)
                          ) AS b
                    WHERE each->'kinds' ? e.kind
                      AND (e.kind <> 'waits' OR (each->>'waits_after')::float8 <= e.waited)
                   ) AS t(target, target_key, owner, number)
           ) AS item
     WHERE nth + (SELECT count(*) FROM workflows_newsitem AS n
                   WHERE n.workflow_uuid = item.workflow AND n.target_key = item.target_key
                     AND n.kind = item.kind) <= {MOST_OF_A_KIND}
     ORDER BY place, number
        ON CONFLICT DO NOTHING
"""  # noqa: S608 -- a constant
_ITEM = Columns(NewsItem)
_TAKE = f"""
    WITH due AS (
        SELECT n.id, n.tries, n.due_at,
               row_number() OVER (PARTITION BY n.owner ORDER BY n.tries, n.due_at, n.id) AS place
          FROM workflows_newsitem AS n
         WHERE n.due_at <= clock_timestamp()
           AND NOT EXISTS (SELECT FROM workflows_newsitem AS earlier
                            WHERE earlier.workflow_uuid = n.workflow_uuid AND earlier.id < n.id
                              AND earlier.target_key = n.target_key AND earlier.due_at IS NOT NULL)
    ), chosen AS (
        SELECT id FROM due WHERE place <= {OF_AN_OWNER} ORDER BY place, tries, due_at, id LIMIT {BATCH}
    ), locked AS (
        SELECT n.id FROM workflows_newsitem AS n
         WHERE n.id IN (SELECT id FROM chosen) AND n.due_at <= clock_timestamp() FOR UPDATE SKIP LOCKED
    )
    UPDATE workflows_newsitem AS n
       SET tries = n.tries + 1, due_at = clock_timestamp() + interval '{LEASE_SECONDS} seconds'
      FROM locked WHERE n.id = locked.id
 RETURNING {_ITEM.sql("n")}
"""  # noqa: S608 -- constants
_TARGET_GONE = """
    UPDATE workflows_newsitem AS n
       SET state = 'given_up', due_at = NULL, ended_at = clock_timestamp(),
           error = CASE WHEN n.owner LIKE 'pool:%' THEN 'Its pool has this target no more.'
                   ELSE 'Its user is deactivated.' END
     WHERE n.due_at <= clock_timestamp()
       AND CASE WHEN n.owner LIKE 'pool:%' THEN NOT EXISTS (
                     SELECT FROM pools_pool AS p CROSS JOIN LATERAL jsonb_array_elements(p.notify) AS t
                      WHERE 'pool:' || p.name = n.owner AND t - 'kinds' - 'waits_after' = n.target)
           ELSE EXISTS (SELECT FROM auth_user AS u WHERE 'user:' || u.username = n.owner AND NOT u.is_active)
           END
"""
_SENT = """
    UPDATE workflows_newsitem SET state = 'sent', error = '', due_at = NULL, ended_at = clock_timestamp()
     WHERE id = %(item)s AND due_at IS NOT NULL
 RETURNING state
"""
_FAILED = f"""
    UPDATE workflows_newsitem AS n
       SET error = %(error)s, state = CASE WHEN late THEN 'given_up' ELSE 'waiting' END,
           ended_at = CASE WHEN late THEN clock_timestamp() END,
           due_at = CASE WHEN late THEN NULL
                    ELSE clock_timestamp() + make_interval(secs => (0.75 + random() / 2) * least(
                             {LONGEST_SECONDS}, {FIRST_SECONDS} * power(2, least(n.tries, 20) - 1))) END
      FROM (SELECT id, created_at < clock_timestamp() - interval '{GIVE_UP_SECONDS} seconds' AS late
              FROM workflows_newsitem) AS age
     WHERE n.id = %(item)s AND age.id = n.id AND n.tries = %(tries)s AND n.due_at IS NOT NULL
 RETURNING n.state
"""  # noqa: S608 -- constants
_PROBLEMS = f"""
    SELECT {_ITEM.sql("n")} FROM unnest(%(owners)s::text[]) AS o(owner) CROSS JOIN LATERAL (
           SELECT * FROM workflows_newsitem AS i WHERE i.owner = o.owner AND i.error <> ''
            ORDER BY i.id DESC LIMIT {MOST_LISTED}) AS n
"""  # noqa: S608 -- constants


def announce(changes: Sequence[NewsChange]) -> None:
    """Record news of changes for the targets that hear of them, in the caller's transaction. One query."""
    if changes:
        with connection.cursor() as cursor:
            cursor.execute(_ANNOUNCE, _values(changes))


def announcing(statement: str, changes: Sequence[NewsChange]) -> tuple[str, dict[str, Any]]:
    """A statement that records news, too, and the further values for it: no query more, whoever listens."""
    return (f"WITH news AS ({_ANNOUNCE}) {statement}", _values(changes)) if changes else (statement, {})


def _values(changes: Sequence[NewsChange]) -> dict[str, Any]:
    return {
        "workflows": [change.workflow for change in changes],
        "kinds": [change.kind for change in changes],
        "keys": [change.key[:200] for change in changes],
        "facts": [json.dumps(change.facts) for change in changes],
        "waits": [change.waited for change in changes],
    }


def take_due() -> list[NewsItem]:
    """Take items that are due, in no order, to be sent within the lease; those of removed targets end."""
    with connection.cursor() as cursor:
        cursor.execute(_TARGET_GONE)
        NEWS.labels("given_up").inc(cursor.rowcount)
        cursor.execute(_TAKE)
        return [_ITEM.instance(row) for row in cursor.fetchall()]


def settle(item: NewsItem, problem: str) -> None:
    """Record that an item was sent or, with a problem, when it is tried again."""
    values: dict[str, Any] = {"item": item.pk, "tries": item.tries, "error": problem[:300]}
    with connection.cursor() as cursor:
        cursor.execute(_FAILED if problem else _SENT, values)
        row = cursor.fetchone()
    if row:
        NEWS.labels(row[0] if row[0] != "waiting" else "failed").inc()


def channel_of(target: dict[str, Any]) -> tuple[str, str]:
    """The channel of a stored target, and its address."""
    channel = next(channel for channel in CHANNELS if target.get(channel))
    return channel, target[channel]


def news_of(workflow: Workflow) -> list[dict[str, Any]]:
    """The newest news to a workflow's own targets, oldest first. One query where there are any."""
    if not workflow.notify:
        return []
    rows = NewsItem.objects.filter(workflow_uuid=workflow.pk, owner=f"user:{workflow.submitted_by}")
    return [_json(row) for row in reversed(rows.order_by("-id")[:MOST_LISTED])]


def problems_of(owners: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """What failed of each owner's news, the newest of each target and error. One query."""
    with connection.cursor() as cursor:
        cursor.execute(_PROBLEMS, {"owners": list(owners)})
        rows = [_ITEM.instance(row) for row in cursor.fetchall()]
    newest: defaultdict[str, dict[tuple[str, str], NewsItem]] = defaultdict(dict)
    for row in rows:  # the newest first
        newest[row.owner].setdefault((row.target_key, row.error), row)
    return {owner: [_json(row) for row in of_owner.values()] for owner, of_owner in newest.items()}


def _json(row: NewsItem) -> dict[str, Any]:
    channel, address = channel_of(row.target)
    return {
        "kind": row.kind,
        "target": f"{channel} {host_of(channel, address)}",
        "state": row.state,
        "tries": row.tries,
        "error": row.error or None,
        "time": row.created_at,
    }
