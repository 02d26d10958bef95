"""Groups of one workflow that move together, since rows alone decide their next step.

A stop ends those of which nothing is in a cluster; the end of an upstream group lets those start that wait
for it, or fails them. No cluster is called for that. So it needs neither a lease nor a slot of the cluster:
one transaction locks up to ``MOST`` groups that nobody holds, decides, and writes with about as many
statements as for one. A workflow of 10,000 groups is canceled in fifty such steps.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import structlog
from django.db import connection, transaction

from workflows.explain.reasons import CREATING, upstream_reason
from workflows.lifecycle.pod_status import UPSTREAM_CODE
from workflows.lifecycle.statuses import LIVE_ORDER, TERMINAL, TaskStatus, quoted
from workflows.models import TaskGroup
from workflows.reconcile.assess.follow import end_all
from workflows.reconcile.end.teardown import NEVER_CREATED, release_changes
from workflows.services import follow_up
from workflows.services.changes import Change, GroupMove, NewAwaitedUpstream, NewWaitingReason, TaskMove
from workflows.services.record import conclude, due_in_batch, lock_batch, postpone, record_locked

MOST = 200
POSTPONED_SECONDS = 60.0

log = structlog.get_logger(__name__)


class UpstreamGroup(NamedTuple):
    """A group that another one starts after."""

    uuid: UUID
    name: str
    status: str


class Advance(NamedTuple):
    """``started`` are the groups whose objects may be created now; ``is_full``: others may be due."""

    started: tuple[UUID, ...]
    is_full: bool


def advance(workflow: UUID) -> Advance:
    """Move groups of a workflow that are due and batched, as many as are cheap to lock."""
    try:
        return _advance(workflow, most=MOST)
    except Exception:  # whatever it is, it is one group's
        log.exception("groups_not_moved_together", workflow=str(workflow))
    started: list[UUID] = []
    for group in due_in_batch(workflow, most=MOST):
        try:
            started += _advance(workflow, most=1, only=group).started
        except Exception:  # as above
            log.exception("group_not_moved", group=str(group))
            postpone(group, seconds=POSTPONED_SECONDS)
    return Advance(tuple(started), is_full=False)


def _advance(workflow: UUID, *, most: int, only: UUID | None = None) -> Advance:
    with transaction.atomic():
        groups, now = lock_batch(workflow, most=most, only=only)
        if now is None:
            return Advance((), is_full=False)
        tries, upstream = _live_tries(groups), _upstream_of(groups)
        changes = {g: changes_of(g, tries=tries[g.pk], upstream=upstream[g.pk]) for g in groups}
        batch = record_locked(changes, now=now)
    conclude(batch)
    if awaiting := [group.pk for group in groups if group.awaited_upstream]:
        follow_up.conclude_awaiting(awaiting)
    started = tuple(group.pk for group in groups if group.status == TaskStatus.PROCESSING)
    return Advance(started, is_full=len(groups) == most)


def changes_of(group: TaskGroup, *, tries: Sequence[int], upstream: Sequence[UpstreamGroup]) -> list[Change]:
    """The changes by which a stop or upstream groups end the group, start it, or keep it waiting.

    ``tries`` are its live ones, ``upstream`` is in the user's order. Of upstream groups that have not ended
    the last is awaited: most likely the others end before it.
    """
    if group.stop_status:
        changes = end_all(tries, status=TaskStatus(group.stop_status), message=group.stop_message)
        return [*changes, *_release(group)]
    failed = sorted((u for u in upstream if _has_failed(u)), key=lambda u: u.name)
    if failed:
        message = f'It needs group "{failed[0].name}", which ended as {failed[0].status}.'
        changes = end_all(tries, status=TaskStatus.FAILED_UPSTREAM, message=message, code=UPSTREAM_CODE)
        return [*changes, *_release(group)]
    if unended := [u for u in upstream if u.status not in TERMINAL]:
        reason = NewWaitingReason(upstream_reason([u.name for u in upstream]))
        return [*_moves(tries, TaskStatus.WAITING), reason, NewAwaitedUpstream(unended[-1].uuid)]
    return [*_moves(tries, TaskStatus.PROCESSING), NewWaitingReason(CREATING)]


def _release(group: TaskGroup) -> list[Change]:
    """None for a group of a backup: what a later state of it created is still to be taken down."""
    return [] if group.touched_cluster else release_changes(group, NEVER_CREATED)


def _has_failed(upstream: UpstreamGroup) -> bool:
    return upstream.status in TERMINAL and upstream.status != TaskStatus.COMPLETED


def _moves(tries: Sequence[int], status: TaskStatus) -> list[Change]:
    return [*(TaskMove(pk=pk, status=str(status)) for pk in tries), GroupMove(status=str(status))]


_TRIES = f"""
    SELECT group_id, id FROM workflows_task
     WHERE group_id = ANY(%s) AND latest AND status IN ({quoted(LIVE_ORDER)}) ORDER BY group_id, position
"""  # noqa: S608 -- names of statuses
_UPSTREAM = """
    SELECT u.from_taskgroup_id, g.uuid, g.name, g.status
      FROM workflows_taskgroup_upstream AS u JOIN workflows_taskgroup AS g ON g.uuid = u.to_taskgroup_id
     WHERE u.from_taskgroup_id = ANY(%s) ORDER BY g.position
"""


def _live_tries(groups: Sequence[TaskGroup]) -> defaultdict[UUID, list[int]]:
    tries: defaultdict[UUID, list[int]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(_TRIES, [[group.pk for group in groups]])
        for group, pk in cursor.fetchall():
            tries[group].append(pk)
    return tries


def _upstream_of(groups: Sequence[TaskGroup]) -> defaultdict[UUID, list[UpstreamGroup]]:
    """The upstream groups of those that no stop ends."""
    upstream: defaultdict[UUID, list[UpstreamGroup]] = defaultdict(list)
    waiting = [group.pk for group in groups if not group.stop_status]
    if not waiting:
        return upstream
    with connection.cursor() as cursor:
        cursor.execute(_UPSTREAM, [waiting])
        for group, *columns in cursor.fetchall():
            upstream[group].append(UpstreamGroup(*columns))
    return upstream
