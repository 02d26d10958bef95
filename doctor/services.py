"""Checks that are requested over REST: a row records the request and the report, a worker does the work.

A web process may not list clusters (``deploy/rbac``), and a check takes longer than a request should. So a
request writes a row and enqueues a message; the caller reads the row until the check has ended. At most one
check runs at a time in the whole installation: a request during one returns that one. The next request sends
a lost message again, and a check whose worker died is given up after ``ABANDONED_AFTER``.
"""

from datetime import timedelta
from typing import Any

import structlog
from celery import current_app
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from kombu.exceptions import KombuError

from doctor.facts import Tolerances
from doctor.models import ConsistencyCheck
from doctor.report import as_json
from doctor.run import check

ABANDONED_AFTER = timedelta(minutes=5)
HISTORY = timedelta(hours=24)
CONFIRM_SECONDS = 15.0
MOST_FINDINGS = 1000
MOST_STORED = 20
TASK = "doctor.tasks.run_check"

log = structlog.get_logger(__name__)


def request_check(*, by: str) -> ConsistencyCheck:
    """Return the unfinished check, or a new one, and enqueue it unless a worker has begun it."""
    ConsistencyCheck.objects.filter(Q(requested_at__lt=Now() - ABANDONED_AFTER), ended_at=None).update(
        ended_at=Now(), failure="No worker ended the check in time; request it again."
    )
    with transaction.atomic():
        row, is_new = ConsistencyCheck.objects.get_or_create(ended_at=None, defaults={"requested_by": by})
        if row.began_at is None:
            transaction.on_commit(lambda: _enqueue(row.pk), robust=True)
    if is_new:
        old = ConsistencyCheck.objects.order_by("-pk").values_list("pk", flat=True)[MOST_STORED:]
        ConsistencyCheck.objects.filter(pk__in=list(old)).delete()
    return row


def run_check(check_id: int) -> None:
    """Run a requested check, unless another worker has begun it."""
    waiting = ConsistencyCheck.objects.filter(pk=check_id, began_at=None, ended_at=None)
    if not waiting.update(began_at=Now()):
        return
    outcome: dict[str, Any] = {"failure": "The check itself failed; the worker's log has the reason."}
    try:
        report = check(limits=Tolerances(), history=HISTORY, confirm=CONFIRM_SECONDS, repairs=False)
        outcome = {"report": bounded(as_json(report))}
    finally:  # Celery logs an exception with its trace; the caller must not wait for a check that failed
        ConsistencyCheck.objects.filter(pk=check_id, ended_at=None).update(ended_at=Now(), **outcome)


def bounded(report: dict[str, Any]) -> dict[str, Any]:
    """Cut the findings of a report to the first ones; ``counts`` still counts all."""
    findings = report["findings"]
    left_out = max(0, len(findings) - MOST_FINDINGS)
    return {**report, "findings": findings[:MOST_FINDINGS], "findings_left_out": left_out}


def _enqueue(check_id: int) -> None:
    try:
        current_app.send_task(TASK, args=[check_id], retry=False)
    except (KombuError, OSError) as error:
        log.warning("consistency_check_not_enqueued", error=str(error))
