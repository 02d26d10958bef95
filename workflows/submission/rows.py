"""The rows of an accepted workflow, all written in one transaction; then its groups are enqueued.

The number's counter is locked until the commit (``numbers``), so no two submissions get the same number.
Pool and backend are locked in share mode until the commit, in the state that the checks have read, so no
workflow is accepted under a configuration that is not in force any more.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import structlog
from django.db import connection, transaction
from django.utils import timezone

from pools.models import Pool
from scheduling import names
from scheduling.errors import Conflict
from scheduling.gang import pins, set_order
from scheduling.sentences import listing
from web.crashpoints import reached
from web.database.model_rows import insert, values_of
from workflows.explain.reasons import upstream_reason
from workflows.lifecycle.pin_words import PINNED
from workflows.lifecycle.statuses import TaskStatus
from workflows.manifests.group import GroupObjects
from workflows.models import Event, Task, TaskGroup, Workflow
from workflows.services.notify import notify_on_commit
from workflows.services.numbers import take_number
from workflows.spec import GroupSpec
from workflows.submission.accepted import AcceptedSubmission
from workflows.submission.quotas import check_limits, lock_limits
from workflows.submission.request import FormerWorkflow
from workflows.values.placement import GroupValues

log = structlog.get_logger(__name__)


def write(accepted: AcceptedSubmission) -> dict[str, Any]:
    """Write all rows in one transaction and return the reply."""
    base = accepted.spec.name
    with transaction.atomic():
        _lock_pool(accepted.pool)
        lock_limits(accepted.limits)
        check_limits(accepted.limits, tasks=accepted.task_count)
        number = take_number(base)
        workflow = _workflow_row(accepted, number=number)
        workflow.reply = accepted.reply(name=workflow.name)
        rows = _group_rows(accepted, workflow)
        insert(
            {
                Workflow: [values_of(workflow)],
                TaskGroup: list(map(values_of, rows)),
                TaskGroup.upstream.through: list(_upstream_rows(accepted, rows)),
                Task: [
                    task
                    for row, group in zip(rows, accepted.groups, strict=True)
                    for task in _task_rows(row, group)
                ],
                Event: list(map(values_of, _events(accepted, workflow, rows))),
            }
        )
        notify_on_commit((row.pk, row.backend_id) for row in rows if row.status == TaskStatus.PROCESSING)
    reached("after-submission-before-reply")
    log.info("workflow_submitted", workflow=workflow.name, groups=len(rows), pool=workflow.pool_name)
    return dict(workflow.reply)


def _events(accepted: AcceptedSubmission, workflow: Workflow, rows: Sequence[TaskGroup]) -> Iterator[Event]:
    """The beginning of the timeline, in order."""
    yield from _restart(workflow, rows, accepted.request.former)
    yield from _choice(workflow, accepted)
    message = f"Accepted into pool {workflow.pool_name} for {workflow.submitted_by}."
    yield _event(workflow, "Submitted", message, key="submitted")
    yield from _forms(accepted, rows)


def _forms(accepted: AcceptedSubmission, rows: Sequence[TaskGroup]) -> Iterator[Event]:
    """Which groups have their sets in an order of their own, or pinned to a domain."""
    for row, group in zip(rows, accepted.groups, strict=True):
        begin = f'Group "{row.name}" fits now only'
        if group.form.order:
            message = f"{begin} with its sets placed in this order: {set_order.sentence(group.form.order)}."
            yield _note(row, "SetsOrdered", message, key="ordered")
        if group.form.pins:
            place = pins.sentence(group.form.pins)
            message = (
                f"{begin} where its scheduler looks past it or does not keep to it, so node labels keep it "
                f"there: {place}."
            )
            yield _note(row, PINNED, message, key="pinned")


def _note(row: TaskGroup, reason: str, message: str, *, key: str) -> Event:
    event = _event(row.workflow, reason, message, key=f"{key}:{row.pk.hex}")
    event.group = row
    return event


def _restart(
    workflow: Workflow, groups: Sequence[TaskGroup], former: FormerWorkflow | None
) -> Iterator[Event]:
    """Which groups run again and which are carried over."""
    if former is None:
        return
    again = [row.name for row in groups if row.status != TaskStatus.COMPLETED]
    carried = [row.name for row in groups if row.status == TaskStatus.COMPLETED]
    note = f" Carried over as COMPLETED: {listing(carried)}." if carried else ""
    message = f"The workflow restarts {former.name}. Run again: {listing(again)}.{note}"
    yield _event(workflow, "RestartOf", message, key="restart-of")


def _choice(workflow: Workflow, accepted: AcceptedSubmission) -> Iterator[Event]:
    """That its pool was chosen.

    Whoever may read the workflow reads this, and may not know the other pools, or workflows that verdicts
    name: those are in the submitter's reply alone.
    """
    if len(accepted.choice) < 2:
        return
    verdict = accepted.choice[0]["verdict"]
    message = f"Pool {workflow.pool_name} was chosen of {len(accepted.choice)}. Its verdict: {verdict}."
    yield _event(workflow, "PoolChosen", message, key="pool-chosen")


def _event(workflow: Workflow, reason: str, message: str, *, key: str) -> Event:
    """An event of the submission; ``key`` makes it appear once."""
    return Event(
        workflow=workflow,
        time=workflow.submit_time,
        source="osmo-topology",
        reason=reason,
        message=message,
        dedupe=key,
    )


class PoolChanged(Conflict):
    """Pool, backend or pod templates are not those that the checks have read."""


def _lock_pool(pool: Pool) -> None:
    """Keep pool and backend as the checks have read them until the commit. Raises PoolChanged if late.

    A pool's name and revision change with everything that an administrator writes of it, also maintenance and
    privilege. Pod templates that apply change without it, so their revisions are compared as well; they are
    read in a statement of their own, because a statement that waits for a lock sees other rows as before.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT 1 FROM pools_pool p JOIN pools_backend b ON b.id = p.backend_id"
            " WHERE p.id = %s AND p.name = %s AND p.revision = %s"
            " AND b.id = %s AND b.name = %s AND b.revision = %s"
            " AND b.enabled AND b.deleted_at IS NULL FOR SHARE",
            [pool.pk, pool.name, pool.revision, pool.backend_id, pool.backend.name, pool.backend.revision],
        )
        is_same = cursor.fetchone() is not None
        cursor.execute(
            "SELECT name, applied_template::text FROM pools_platform WHERE pool_id = %s", [pool.pk]
        )
        now = {name: json.loads(template) for name, template in cursor.fetchall()}
    templates = {row.name: row.applied_template for row in pool.platforms.all()}
    if not is_same or _revisions(templates) != _revisions(now):
        raise PoolChanged(f'Pool "{pool.name}" was changed or deleted a moment ago: submit again.')


def _revisions(templates: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The revisions of the pod templates of each platform."""
    return {platform: template.get("revisions", {}) for platform, template in templates.items()}


def _workflow_row(accepted: AcceptedSubmission, *, number: int) -> Workflow:
    request, spec, placement = accepted.request, accepted.spec, accepted.placement
    key = request.idempotency_key
    return Workflow(
        uuid=placement.workflow_uuid,
        name=f"{spec.name}-{number}",
        base_name=spec.name,
        number=number,
        pool_name=accepted.pool.name,
        backend_id=accepted.pool.backend_id,
        pool_revision=accepted.pool.revision,
        submitted_by=request.user.get_username(),
        priority=request.priority,
        labels=dict(spec.labels),
        spec=spec.rendered,
        template_spec=accepted.template,
        env_vars=list(request.env_vars),
        parent_name=request.former.base_name if request.former else "",
        parent_job_id=request.former.number if request.former else None,
        notify=list(spec.notify),
        warnings=accepted.warnings,
        task_count=accepted.task_count,
        gpu_count=sum(task.placement.gpu for group in accepted.groups for task in group.tasks),
        exec_timeout=placement.exec_timeout,
        queue_timeout=placement.queue_timeout,
        submit_time=timezone.now(),
        request_id=request.request_id,
        idempotency_key=key,
        idempotency_digest=request.digest() if key else "",
    )


def _group_rows(accepted: AcceptedSubmission, workflow: Workflow) -> list[TaskGroup]:
    carried = accepted.request.carried
    rows = [
        _group_row(*parts, workflow=workflow, position=position, carried=carried)
        for position, parts in enumerate(
            zip(accepted.spec.groups, accepted.groups, accepted.objects, strict=True)
        )
    ]
    by_name = {row.name: row for row in rows if row.name not in carried}
    for row, spec in zip(rows, accepted.spec.groups, strict=True):
        upstream = [by_name[name] for name in spec.upstream if name in by_name]
        if row.status == TaskStatus.WAITING:  # most likely the others end before the last
            row.awaited_upstream = max(upstream, key=lambda group: group.position).pk
    return rows


def _upstream_rows(accepted: AcceptedSubmission, rows: Sequence[TaskGroup]) -> Iterator[dict[str, Any]]:
    by_name = {row.name: row.pk for row in rows}
    for spec in accepted.spec.groups:
        for upstream in spec.upstream:
            yield {"from_taskgroup_id": by_name[spec.name], "to_taskgroup_id": by_name[upstream]}


def _group_row(
    spec: GroupSpec,
    group: GroupValues,
    objects: GroupObjects,
    *,
    workflow: Workflow,
    position: int,
    carried: frozenset[str],
) -> TaskGroup:
    """The row of a group; the groups in ``carried`` completed in the workflow that is restarted."""
    now = workflow.submit_time
    upstream = [name for name in spec.upstream if name not in carried]
    done = group.name in carried
    reason = None if done else upstream_reason(upstream)
    return TaskGroup(
        uuid=group.uuid,
        workflow=workflow,
        backend_id=workflow.backend_id,
        position=position,
        name=group.name,
        status=TaskStatus.COMPLETED if done else TaskStatus.WAITING if upstream else TaskStatus.PROCESSING,
        barrier=spec.barrier,
        ignore_nonlead_status=spec.ignore_nonlead_status,
        placement=replace(group.placement, workflow_name=workflow.name).to_json(),
        constraints=[constraint.as_json() for constraint in objects.constraints],
        form=group.form.to_json(),
        waiting_why=reason.why if reason else "",
        waiting_reason=reason.sentence if reason else "",
        waiting_evidence=reason.evidence if reason else {},
        waiting_since=None if done else now,
        submit_time=timezone.now(),  # groups of a queue are taken in this order
        processing_start_time=None if upstream or done else now,
        end_time=now if done else None,
        released_at=now if done else None,
        next_reconcile_at=None if upstream or done else now,
    )


def _task_rows(row: TaskGroup, group: GroupValues) -> Iterator[dict[str, Any]]:
    specs = {id(task.placement): task.placement for task in group.tasks}  # tasks of one entry share theirs
    documents = {key: placement.to_json() for key, placement in specs.items()}
    for position, task in enumerate(group.tasks):
        yield {
            "group_id": row.pk,
            "task_uuid": task.task_uuid,
            "position": position,
            "name": task.name,
            "lead": task.placement.lead,
            "status": row.status,
            "spec": documents[id(task.placement)],
            "pod_name": names.pod(task.task_uuid, retry=0),
            "processing_start_time": row.processing_start_time,
            "end_time": row.end_time,
        }
