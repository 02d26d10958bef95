"""Back-pressure: submissions are refused while too many accepted task groups are not yet created.

An accepted workflow is never dropped, so accepting without a limit would only move the wait from the caller,
who could go elsewhere, into the table of task groups. The limit is checked before anything is read or
written, so a refusal costs next to nothing and leaves nothing behind.

There are two limits. The limit per pool keeps one pool, whose cluster may be away for days, from filling the
table. The limit over all pools refuses only pools with more than an even share of it, so a pool with few
groups may submit however full the others are. Requests that are checked at the same moment may together
exceed a limit: it bounds the size of a table and is no promise to anyone.

Task groups with objects in a cluster do not count, however long their scheduler makes them wait: they cost
nothing until their cluster reports a change.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from django.conf import settings
from django.db import connection

from scheduling.errors import Busy
from workflows.lifecycle.statuses import BACKLOG, quoted

RETRY_SECONDS = 10

_BACKLOG = f"""
    SELECT w.pool_name, count(*)
      FROM workflows_taskgroup g JOIN workflows_workflow w ON w.uuid = g.workflow_id
     WHERE g.released_at IS NULL AND g.created_in_cluster_at IS NULL
       AND g.status IN ({quoted(BACKLOG)})
     GROUP BY w.pool_name
"""  # noqa: S608 -- constants


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The most task groups that may be accepted and not yet created."""

    pool: int
    overall: int


def check_backlog(pool: str) -> None:
    """Raise Busy if the pool may not submit now."""
    env = settings.ENV
    bounds = Bounds(pool=env.pool_backlog_groups, overall=env.backlog_groups)
    if message := refusal(read_backlog(), pool=pool, bounds=bounds):
        raise Busy(message, retry_after=RETRY_SECONDS)


def read_backlog() -> dict[str, int]:
    """Task groups accepted and not yet created, by pool."""
    with connection.cursor() as cursor:
        cursor.execute(_BACKLOG)
        return dict(cursor.fetchall())


def refusal(backlog: Mapping[str, int], *, pool: str, bounds: Bounds) -> str | None:
    """The reason why a pool may not submit; None if it may."""
    own, total = backlog.get(pool, 0), sum(backlog.values())
    if own >= bounds.pool:
        return (
            f'Pool "{pool}" has {own} accepted task groups that are not yet created. It accepts more when '
            f"fewer than {bounds.pool} are left. Nothing was accepted: submit again later."
        )
    share = bounds.overall // len({*backlog, pool})
    if total >= bounds.overall and own >= share:
        return (
            f"All pools together have {total} accepted task groups that are not yet created, {own} of them "
            f'in pool "{pool}", whose share is {share}. Nothing was accepted: submit again later.'
        )
    return None
