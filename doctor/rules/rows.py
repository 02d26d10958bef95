"""Rules over the rows alone."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

from doctor.facts import Facts, Finding, GroupRow, KindOfFinding, Repair, Tolerances, WorkflowRow
from doctor.turns import due_since, judged_at, waits
from scheduling.sentences import agree, plain_listing
from workflows.lifecycle.statuses import FAILURES, LIVE_ORDER

LIVE = frozenset(str(status) for status in LIVE_ORDER)
ASLEEP = timedelta(minutes=15)
"""Every group is reconciled more often than this, whatever it waits for."""

_DECIDING = ("FAILED_CANCELED", "FAILED_SERVER_ERROR", "FAILED_EXEC_TIMEOUT", "FAILED_QUEUE_TIMEOUT")


def row_rules(facts: Facts, limits: Tolerances) -> Iterator[Finding]:
    for group in facts.groups.values():
        if group.released_at is None:
            at = judged_at(group, facts, limits)
            yield from _not_due(group, facts, limits)
            yield from _upstream_ended(group, at, limits)
            yield from _overdue(group, at, limits)
            yield from _not_released(group, at, limits)
            yield from _not_cleared(group, at, limits)
        yield from _statuses_of(group)
        yield from _two_live_tries(group)
    for workflow in facts.workflows:
        yield from _workflow(workflow)
    for steps in facts.backwards:
        yield Finding(
            kind="backwards",
            rule="steps",
            message=f"{steps.subject} went {' → '.join(steps.steps)}.",
            since=steps.since,
            workflow=steps.workflow,
            object=steps.subject,
        )


def about(
    group: GroupRow,
    *,
    kind: KindOfFinding,
    rule: str,
    message: str,
    since: datetime | None,
    repair: Repair = "",
    obj: str = "",
    unsure: bool = False,
) -> Finding:
    """A finding about a group."""
    return Finding(
        kind=kind,
        rule=rule,
        message=message,
        since=since,
        backend=group.backend,
        workflow=group.workflow,
        group=group.name,
        object=obj,
        repair=repair,
        unsure=unsure,
        cluster=group.cluster,
        group_uuid=group.uuid,
    )


def _not_due(group: GroupRow, facts: Facts, limits: Tolerances) -> Iterator[Finding]:
    now = facts.now
    if group.leased_until is not None and group.leased_until > now:
        return
    if group.due is None:
        if group.awaits:  # until that upstream group has ended; see _upstream_ended
            return
        message = f"Group is {group.status} and not released, and no reconcile is due."
        yield about(
            group, kind="lost", rule="no-look", message=message, since=None, repair="enqueue", unsure=True
        )
    elif (since := due_since(group, now)) is not None:
        if now - since <= limits.due or waits(group, facts, limits):
            return
        message = f"Due for {_ago(now, since)}, and no worker has taken it."
        yield about(group, kind="lost", rule="due", message=message, since=since, repair="enqueue")
    elif group.due - now > ASLEEP:
        message = f"Its next reconcile is due only at {group.due:%Y-%m-%d %H:%M:%S}."
        yield about(group, kind="lost", rule="asleep", message=message, since=None, repair="enqueue")


def _upstream_ended(group: GroupRow, now: datetime, limits: Tolerances) -> Iterator[Finding]:
    """A waiting group continues when the last of its upstream groups has ended, or one of them has failed."""
    if group.status not in ("SUBMITTING", "WAITING"):
        return
    ended = [end for status, end in group.upstream if status not in LIVE and end is not None]
    failed = [end for status, end in group.upstream if status in FAILURES and end is not None]
    since = min(failed) if failed else max(ended, default=group.submitted)
    if (failed or len(ended) == len(group.upstream)) and now - since > limits.due:
        which = "one of its upstream groups has failed" if failed else "all its upstream groups have ended"
        message = f"Group is {group.status}, and {which}."
        yield about(group, kind="lost", rule="upstream", message=message, since=since, repair="enqueue")


def _overdue(group: GroupRow, now: datetime, limits: Tolerances) -> Iterator[Finding]:
    if group.status not in LIVE:
        return
    begins = group.attempt.begins if group.attempt else None
    timers = (
        ("PROCESSING", begins or group.touched_at, group.queue_timeout, "queue timeout"),
        ("SCHEDULING", begins or group.scheduling_since, group.queue_timeout, "queue timeout"),
        ("RUNNING", group.exec_since, group.exec_timeout, "execution timeout"),
    )
    for status, began, seconds, timeout in timers:
        if group.present_status != status or began is None or seconds is None:
            continue
        if now > (until := began + timedelta(seconds=seconds)) + limits.overdue:
            message = f"Group is {status}; its {timeout} of {seconds:g} s ended {_ago(now, until)} ago."
            yield about(group, kind="stuck", rule="overdue", message=message, since=until, repair="enqueue")


def _not_released(group: GroupRow, now: datetime, limits: Tolerances) -> Iterator[Finding]:
    if group.status in LIVE:
        return
    since = group.ended_at or group.submitted
    if group.stuck:
        yield about(
            group, kind="stuck", rule="release-stuck", message=group.stuck, since=since, repair="enqueue"
        )
    elif now - since > limits.release:
        message = f"Group ended as {group.status} {_ago(now, since)} ago and is not released."
        if group.waiting:
            message += f" {group.waiting}"
        yield about(group, kind="stuck", rule="not-released", message=message, since=since, repair="enqueue")


def _not_cleared(group: GroupRow, now: datetime, limits: Tolerances) -> Iterator[Finding]:
    """An attempt begins when nothing of the one before is left."""
    attempt = group.attempt
    if group.status not in LIVE or attempt is None or not attempt.clearing:
        return
    rule, message = "release-stuck", group.stuck
    if not message and now - attempt.since > limits.release:
        number, ago = attempt.number - 1, _ago(now, attempt.since)
        rule = "not-cleared"
        message = f"Attempt {number} ended {ago} ago and is not cleared away. {group.waiting}".strip()
    if message:
        yield about(group, kind="stuck", rule=rule, message=message, since=attempt.since, repair="enqueue")


def _statuses_of(group: GroupRow) -> Iterator[Finding]:
    latest = [task_try for task_try in group.tries if task_try.latest]
    living = sorted(task_try.name for task_try in latest if task_try.status in LIVE)
    if group.status not in LIVE and living:
        verb = agree(len(living), "has", "have")
        message = f"Group is {group.status} and {plain_listing(living, limit=3)} {verb} not ended."
        yield about(group, kind="inconsistent", rule="live-tasks", message=message, since=group.ended_at)
    if group.status in LIVE and latest and not living:
        message = f"Group is {group.status} and all its tasks have ended."
        yield about(group, kind="inconsistent", rule="no-live-task", message=message, since=None)
    lead = [task_try for task_try in latest if task_try.lead]
    if group.status == "COMPLETED" and any(task_try.status not in (*LIVE, "COMPLETED") for task_try in lead):
        message = f"Group is COMPLETED and its lead ended as {lead[0].status}."
        yield about(group, kind="inconsistent", rule="lead", message=message, since=group.ended_at)


def _two_live_tries(group: GroupRow) -> Iterator[Finding]:
    tries = Counter(task_try.name for task_try in group.tries if task_try.status in LIVE)
    for name, number in sorted(tries.items()):
        if number > 1:
            message = f"Task {name} has {number} live tries at once."
            yield about(group, kind="doubled", rule="live-tries", message=message, since=None, obj=name)


def _workflow(workflow: WorkflowRow) -> Iterator[Finding]:
    allowed = _allowed(workflow.groups)
    if workflow.status not in allowed:
        message = (
            f"Workflow is {workflow.status}; with groups {', '.join(sorted(set(workflow.groups))) or 'none'} "
            f"it should be {' or '.join(sorted(allowed)) or 'refused'}."
        )
        yield Finding(
            kind="inconsistent",
            rule="workflow-status",
            message=message,
            since=workflow.ended_at or workflow.submitted,
            workflow=workflow.name,
        )


def _allowed(groups: tuple[str, ...]) -> set[str]:
    """The statuses that a workflow with such groups may have."""
    if "RUNNING" in groups:
        return {"RUNNING"}
    if any(status in LIVE for status in groups):
        return {"PENDING", "RUNNING"}  # between two groups it stays RUNNING
    for status in _DECIDING:
        if status in groups:
            return {status}
    failed = set(groups) - {"COMPLETED", "FAILED_UPSTREAM"}
    if len(failed) == 1:
        return failed
    if failed or "FAILED_UPSTREAM" in groups:
        return {"FAILED"}
    return {"COMPLETED"} if groups else set()


def _ago(now: datetime, since: datetime) -> str:
    return f"{max((now - since).total_seconds(), 0):.0f} s"
