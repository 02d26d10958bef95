"""Back-pressure: a submission is refused while too much that was accepted is not yet created.

What is accepted is kept, so accepting without a bound only moves the wait from the caller, who could go
elsewhere, into a table that everybody's groups are looked for in. The bound is asked before anything is read
or written, so a refusal costs next to nothing and leaves nothing.

Two bounds. A pool's own keeps one pool, whose cluster may be away for days, from filling the table. The one
over all pools refuses only those that hold more than an even share of it: a pool with little to do is let in
however full the others are. Requests that are checked at the same moment may together go over by what they
bring; the bound is on a table's size, not on a promise to anyone.

Groups that have objects in a cluster are not counted, however long their scheduler makes them wait: they cost
nothing until their cluster has news.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from django.conf import settings
from django.db import connection

from scheduling.errors import Busy

RETRY_SECONDS = 10

_BACKLOG = """
    SELECT w.pool_name, count(*)
      FROM workflows_taskgroup g JOIN workflows_workflow w ON w.uuid = g.workflow_id
     WHERE g.released_at IS NULL AND g.created_in_cluster_at IS NULL
       AND g.status IN ('SUBMITTING', 'WAITING', 'PROCESSING')
     GROUP BY w.pool_name
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Most groups accepted and not yet created."""

    pool: int
    overall: int


def check_room(pool: str) -> None:
    """Raise Busy if the pool may not bring more groups now."""
    env = settings.ENV
    bounds = Bounds(pool=env.pool_backlog_groups, overall=env.backlog_groups)
    if message := refusal(read_backlog(), pool=pool, bounds=bounds):
        raise Busy(message, retry_after=RETRY_SECONDS)


def read_backlog() -> dict[str, int]:
    """Groups accepted and not yet created, by pool."""
    with connection.cursor() as cursor:
        cursor.execute(_BACKLOG)
        return dict(cursor.fetchall())


def refusal(backlog: Mapping[str, int], *, pool: str, bounds: Bounds) -> str | None:
    """Why a pool may bring no more groups; None if it may."""
    own, everyone = backlog.get(pool, 0), sum(backlog.values())
    if own >= bounds.pool:
        return (
            f'Pool "{pool}" has {own} task groups that were accepted and are not yet created; it takes more '
            f"when they are fewer than {bounds.pool}. Nothing was accepted; submit again later."
        )
    share = bounds.overall // len({*backlog, pool})
    if everyone >= bounds.overall and own >= share:
        return (
            f"{everyone} task groups of all pools were accepted and are not yet created, {own} of them of "
            f'pool "{pool}", whose share is {share}. Nothing was accepted; submit again later.'
        )
    return None
