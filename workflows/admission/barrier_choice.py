"""Whether a task group gets a start barrier, and with which limit. Pure.

OSMO's default is ``barrier: true``, so most groups never say it, and only those that do are answered. A group
whose tasks are not placed together gets a barrier only if it says so: the first task would wait on its node
for peers that are still in the queue, and end when its limit is over.

The limit is shorter than the start timeout, so that the barrier ends first and can name who is missing.
"""

from scheduling.errors import Notice
from scheduling.sentences import in_seconds
from workflows.admission.pool_facts import PoolFacts
from workflows.spec.workflow_spec import GroupSpec
from workflows.values.placement import StartBarrier

SHARE_OF_START = 0.8
MOST_TASKS = 2000
"""Every task looks up every peer, so the cluster's DNS gets their product of questions."""


def start_barrier(
    group: GroupSpec, facts: PoolFacts, *, start_timeout: float, starts_together: bool
) -> tuple[StartBarrier | None, Notice | None]:
    """The barrier of a group, and what to tell somebody who asks for one."""
    tasks, settings = len(group.tasks), facts.start_barrier
    if not group.barrier or tasks < 2 or not (starts_together or group.asks_barrier):
        return None, None
    if settings is None or tasks > MOST_TASKS:
        return None, _left_out(group, facts) if group.asks_barrier else None
    most = SHARE_OF_START * start_timeout
    limit = most if settings.limit is None else min(settings.limit, most)
    barrier = StartBarrier(image=settings.image, command=settings.command, limit=limit)
    return barrier, None if starts_together else _one_by_one(group, facts, limit=limit)


def _left_out(group: GroupSpec, facts: PoolFacts) -> Notice:
    because = (
        f'backend "{facts.terms.backend}" has no image for a start barrier'
        if facts.start_barrier is None
        else f"a start barrier serves at most {MOST_TASKS:,} tasks"
    )
    message = (
        f'"barrier" is accepted but not carried out: {because}, so each command begins as soon as its '
        "container does."
    )
    return Notice("not_carried_out", message, (*group.path, "barrier"))


def _one_by_one(group: GroupSpec, facts: PoolFacts, *, limit: float) -> Notice:
    message = (
        f'Scheduler "{facts.terms.scheduler_type}" does not place all tasks of "{group.name}" together: one '
        f"whose peers have no address {in_seconds(limit)} after its start fails. "
        "Leave `barrier: true` out if some may wait longer for their node."
    )
    return Notice("barrier_alone", message, (*group.path, "barrier"))
