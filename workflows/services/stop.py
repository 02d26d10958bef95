"""Requesting the end of task groups: written in the row, carried out by reconcile.

A stop request has a status; the first one stays, so a cancel does not rewrite what a timeout decided.
``force`` may be added later at any time until everything is released.
"""

from django.db import transaction
from django.db.models import Q

from scheduling.errors import Conflict
from workflows.lifecycle.statuses import LIVE_ORDER, WORKFLOW_TERMINAL, TaskStatus
from workflows.models import TaskGroup, Workflow
from workflows.services.notify import mark_due


def request_stop(groups: Q, *, status: TaskStatus, message: str, force: bool) -> int:
    """Request that the groups matching ``groups`` end with ``status``; returns how many requests are new.

    Groups that have ended, or have a request, keep their status and take only ``force``.
    """
    with transaction.atomic():
        rows = TaskGroup.objects.filter(groups, released_at=None).select_for_update(no_key=True)
        ids = list(rows.order_by("pk").values_list("pk", flat=True))
        fresh = TaskGroup.objects.filter(pk__in=ids, stop_status="", status__in=LIVE_ORDER)
        count = fresh.update(stop_status=status, stop_message=message)
        if force:
            TaskGroup.objects.filter(pk__in=ids).update(force=True)
        mark_due(ids)
    return count


def cancel_workflow(workflow: Workflow, *, by: str, message: str, force: bool) -> None:
    """Cancel all of a workflow. Raises Conflict if it has ended, unless ``force`` speeds up its release.

    A request that comes after the end of its last group ends nothing, so its author has not cancelled it.
    """
    text = f"Cancelled by {by}" + (f": {message}" if message else ".")
    with transaction.atomic():
        row = Workflow.objects.get(pk=workflow.pk)
        ended = row.status in WORKFLOW_TERMINAL
        unreleased = row.groups.filter(released_at=None).exists()
        if ended and not (force and unreleased):
            raise Conflict(f"Workflow {row.name} has already ended: it is {row.status}.")
        count = request_stop(Q(workflow=row), status=TaskStatus.FAILED_CANCELED, message=text, force=force)
        if count:  # at last, so that the row is not locked while thousands of groups are written
            Workflow.objects.filter(pk=row.pk, cancelled_by="").update(cancelled_by=by)
