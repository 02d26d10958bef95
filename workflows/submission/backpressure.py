"""Back-pressure: submissions are refused while too many accepted task groups wait for workers to create them.

An accepted workflow is never dropped, so accepting without a limit would only move the wait from the caller,
who could go elsewhere, into the table of task groups. The backlog is what workers must do soon. Groups that
wait for another group are not in it, nor are groups with objects in a cluster, however long their scheduler
makes them wait: both cost nothing until something happens. Groups of a cluster that is away are: they all
become work when it returns.

A pool has a limit, and all pools together have one; beyond that a pool has an even share of it. Each is
shared evenly by the users who have groups in the pool, so one user's groups keep no other user waiting. A
user without any is never refused: a workflow larger than the whole limit is accepted, and the next one waits
for it. Nor is an administrator of the pool. Requests that are checked at the same moment may together exceed
a limit: it bounds the size of a table and is no promise to anyone.

The backlog is read once, before the document, so that a refusal costs next to nothing where any document
would be refused; a document's own groups are added as soon as it is read.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import connection

from pools.models import Pool
from scheduling.errors import Busy
from scheduling.sentences import agree, count_of, plain_listing
from web.access.rights import grants_of
from web.policy import Action
from workflows.lifecycle.statuses import TaskStatus
from workflows.spec import GroupSpec

RETRY_SECONDS = 10
MOST_NAMES = 3
"""Other users whom a refusal names, to somebody who may list their workflows."""

_BACKLOG = f"""
    WITH backlog AS (
        SELECT g.workflow_id, count(*) AS groups FROM workflows_taskgroup g
         WHERE g.released_at IS NULL AND g.created_in_cluster_at IS NULL
           AND g.status = '{TaskStatus.PROCESSING}'
         GROUP BY g.workflow_id)
    SELECT w.pool_name, w.submitted_by, sum(backlog.groups)::bigint
      FROM backlog JOIN workflows_workflow w ON w.uuid = backlog.workflow_id
     GROUP BY w.pool_name, w.submitted_by
"""  # noqa: S608 -- a constant


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The most task groups that may wait for workers to create them."""

    pool: int
    overall: int


@dataclass(frozen=True, slots=True)
class Backlog:
    """Task groups that wait for workers to create them, by pool and user."""

    groups: Mapping[str, Mapping[str, int]]

    def by_user(self, pool: str) -> Mapping[str, int]:
        return self.groups.get(pool, {})

    def of_pool(self, pool: str) -> int:
        return sum(self.by_user(pool).values())

    @property
    def overall(self) -> int:
        return sum(map(self.of_pool, self.groups))


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitter:
    """The user who submits; ``names_others`` is whether they may know who else has workflows in the pool."""

    user: str
    names_others: bool


class BacklogCheck:
    """The check of one submission to one pool, against the backlog as it was when the check began."""

    def __init__(self, user: AbstractBaseUser, pool: Pool) -> None:
        grants, resource = grants_of(user), f"pool/{pool.name}"
        self._pool = pool.name
        self._submitter = Submitter(
            user=user.get_username(), names_others=grants.allows(Action.WORKFLOW_LIST, resource)
        )
        self._backlog = None if grants.allows(Action.CONFIG_UPDATE, resource) else read_backlog()

    def check(self, *, added: int) -> None:
        """Raise Busy if so many groups more may not wait now."""
        if self._backlog is None:
            return
        env = settings.ENV
        bounds = Bounds(pool=env.pool_backlog_groups, overall=env.backlog_groups)
        if reason := refusal(
            self._backlog, pool=self._pool, submitter=self._submitter, added=added, bounds=bounds
        ):
            raise Busy(reason, retry_after=RETRY_SECONDS)


def read_backlog() -> Backlog:
    """The backlog of all pools. Its partial index has no ended groups and none that wait for another one."""
    groups: dict[str, dict[str, int]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_BACKLOG)
        for pool, user, count in cursor.fetchall():
            groups.setdefault(pool, {})[user] = count
    return Backlog(groups)


def groups_to_create(groups: Iterable[GroupSpec], *, carried: frozenset[str]) -> int:
    """How many of a document's groups wait for no other group; those in ``carried`` have completed before."""
    return sum(group.name not in carried and carried.issuperset(group.upstream) for group in groups)


def refusal(backlog: Backlog, *, pool: str, submitter: Submitter, added: int, bounds: Bounds) -> str | None:
    """The reason why a caller may not submit so many groups to a pool; None if they may."""
    users = backlog.by_user(pool)
    total, own = backlog.of_pool(pool), users.get(submitter.user, 0)
    bound = bounds.pool
    if backlog.overall + added > bounds.overall:
        bound = min(bound, bounds.overall // len({*backlog.groups, pool}))
    share = bound // len({*users, submitter.user})
    if not own or total + added <= bound or own + added <= share:
        return None
    verb, end = agree(total, "waits", "wait"), "submit again later"
    if added > share:
        end += "; it is accepted when none of yours is left"
    return (
        f'Pool "{pool}" has {count_of(total, "task group")} that {verb} for workers to create them: '
        f"{own:,} of yours{_others(users, submitter)}. {_limit(bound, bounds)}, your share of it "
        f"is {share:,}, and this workflow adds {added:,}. Nothing was accepted: {end}."
    )


def _others(users: Mapping[str, int], submitter: Submitter) -> str:
    """How many are of other users, and of whom as far as the caller may know."""
    others = sorted(((count, user) for user, count in users.items() if user != submitter.user), reverse=True)
    if not others:
        return ""
    text = f" and {sum(count for count, _ in others):,} of others"
    if not submitter.names_others:
        return text
    return f"{text} ({plain_listing([f'{user}: {count:,}' for count, user in others], limit=MOST_NAMES)})"


def _limit(bound: int, bounds: Bounds) -> str:
    if bound == bounds.pool:
        return f"The pool's limit is {bound:,}"
    return f"All pools together have a limit of {bounds.overall:,}: this pool's part of it is {bound:,}"
