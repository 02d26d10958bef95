"""Groups that wait for their turn with the workers: late, and not lost.

Thousands of groups that become due at once, such as those of a wide workflow that is cancelled, wait minutes
for a worker. Each of them is taken in the end, since the sweep, which a worker runs, finds whatever is due.
So while it runs, a due group is given the time in which workers get through all that are due, and a group is
judged as of when its wait began: what it has not done since, it could not do. A group that waits longer than
that is passed over, and somebody must look. Rejected: leases as a sign of work, since batches take none.
"""

from datetime import datetime, timedelta

from doctor.facts import Facts, GroupRow, Tolerances

SWEPT_WITHIN = timedelta(seconds=30)
"""A sweep runs every 2 s; one in so long shows that beat, broker and a worker are alive."""
EACH = timedelta(seconds=0.5)
"""The time in which workers get through a group that is due, on a busy machine."""


def due_since(group: GroupRow, now: datetime) -> datetime | None:
    """Since when it is due and nobody's; None if it is not."""
    if group.released_at is not None or group.due is None:
        return None
    since = max(group.due, group.leased_until or group.due)
    return since if since <= now else None


def waits(group: GroupRow, facts: Facts, limits: Tolerances) -> bool:
    """Whether it waits for its turn."""
    since, workers = due_since(group, facts.now), facts.workers
    if since is None or workers.swept_at is None or facts.now - workers.swept_at > SWEPT_WITHIN:
        return False
    return facts.now - since <= limits.due + workers.due * EACH


def judged_at(group: GroupRow, facts: Facts, limits: Tolerances) -> datetime:
    """The time as of which it is judged: now, unless it waits for its turn."""
    since = due_since(group, facts.now) if waits(group, facts, limits) else None
    return since or facts.now


def waiting(facts: Facts, limits: Tolerances) -> list[datetime]:
    """Since when each group waits for its turn."""
    times = (due_since(group, facts.now) for group in facts.groups.values() if waits(group, facts, limits))
    return [time for time in times if time is not None]
