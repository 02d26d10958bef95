"""Limits on the workflows and tasks that a user, and a pool, may have at a time.

Workflows that have not ended count, and of their tasks the latest tries that have not. Counting takes a lock
on the user and on the pool until the submission commits, so of two submissions at once only one gets the last
place. Without a limit nothing is locked and nothing counted.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from django.db import connection

from pools.documents.workflow import WorkflowLimits
from pools.models import Pool
from scheduling.errors import Fault, LimitReached
from workflows.lifecycle.statuses import LIVE_ORDER, WORKFLOW_LIVE
from workflows.models import Task, Workflow

LOCK = 0x6F73_6C69
"""First key of the advisory locks on limits; the second is the hash of ``Limit.owner``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One limit of a user, of a pool, or of a user in a pool. An administrator changes ``setting``."""

    setting: str
    counts: str
    most: int
    user: str | None = None
    pool: str | None = None

    @property
    def owner(self) -> str:
        user = f'user "{self.user}"' if self.user else ""
        pool = f'pool "{self.pool}"' if self.pool else ""
        return " in ".join(filter(None, (user, pool)))


def limits_on(user: str, pool: Pool, overall: WorkflowLimits) -> tuple[Limit, ...]:
    """The limits in force for a submission of this user to this pool."""
    settings = [
        ("user_workflow_limits.max_num_workflows", "workflows", overall.user_workflows, user, None),
        ("user_workflow_limits.max_num_tasks", "tasks", overall.user_tasks, user, None),
        ("max_num_workflows", "workflows", pool.max_num_workflows, None, pool.name),
        ("max_num_tasks", "tasks", pool.max_num_tasks, None, pool.name),
        ("max_num_workflows_per_user", "workflows", pool.max_num_workflows_per_user, user, pool.name),
        ("max_num_tasks_per_user", "tasks", pool.max_num_tasks_per_user, user, pool.name),
    ]
    return tuple(
        Limit(setting=setting, counts=counts, most=most, user=of, pool=place)
        for setting, counts, most, of, place in settings
        if most is not None
    )


def check_limits(limits: tuple[Limit, ...], *, tasks: int) -> None:
    """Raise LimitReached, naming every limit that one more workflow of so many tasks would exceed."""
    faults = tuple(_faults(limits, tasks=tasks))
    if faults:
        raise LimitReached(" ".join(fault.message for fault in faults), faults)


def lock_limits(limits: tuple[Limit, ...]) -> None:
    """Keep other submissions under the same limits waiting until the commit. Only inside a transaction."""
    with connection.cursor() as cursor:
        for owner in sorted({limit.owner for limit in limits}):
            cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [LOCK, owner])


def _faults(limits: tuple[Limit, ...], *, tasks: int) -> Iterator[Fault]:
    for limit in limits:
        added = 1 if limit.counts == "workflows" else tasks
        has = _count(limit)
        if has + added <= limit.most:
            continue
        room = max(0, limit.most - has)
        yield Fault(
            (),
            "limit_reached",
            f"{limit.owner[0].upper()}{limit.owner[1:]} may have {limit.most} {limit.counts} that have not "
            f"ended ({limit.setting}) and has {has}; this workflow adds {added}. At most {room} more are "
            "accepted now.",
        )


def _count(limit: Limit) -> int:
    if limit.counts == "workflows":
        rows = Workflow.objects.filter(status__in=WORKFLOW_LIVE)
        rows = rows.filter(submitted_by=limit.user) if limit.user else rows
        return (rows.filter(pool_name=limit.pool) if limit.pool else rows).count()
    tasks = Task.objects.filter(status__in=LIVE_ORDER, latest=True)
    tasks = tasks.filter(group__workflow__submitted_by=limit.user) if limit.user else tasks
    return (tasks.filter(group__workflow__pool_name=limit.pool) if limit.pool else tasks).count()
