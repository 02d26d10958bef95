"""Audits that are asked for over REST: a row says what was asked and found, a worker does the looking.

A web process may not list what is in clusters (``deploy/rbac``), and a look takes longer than a request
should. So asking writes a row and enqueues; whoever asks reads the row until it has ended. There is one audit
at a time for the whole installation: who asks while one goes on is given that one. A message that is lost is
sent again by the next who asks, and an audit whose worker died is given up after ``GIVEN_UP``.
"""

from datetime import timedelta
from typing import Any

import structlog
from celery import current_app
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from kombu.exceptions import KombuError

from doctor.facts import Limits
from doctor.models import ConsistencyCheck
from doctor.run import as_json, audit

GIVEN_UP = timedelta(minutes=5)
HISTORY = timedelta(hours=24)
CONFIRM_SECONDS = 15.0
MOST_FINDINGS = 1000
KEPT = 20
RUN = "workflows.tasks.run_audit"

log = structlog.get_logger(__name__)


def ask(*, by: str) -> ConsistencyCheck:
    """The audit that goes on, or a new one; a worker is told of one that nobody has begun."""
    ConsistencyCheck.objects.filter(Q(asked_at__lt=Now() - GIVEN_UP), ended_at=None).update(
        ended_at=Now(), failure="No worker ended it in time; ask again."
    )
    with transaction.atomic():
        row, is_new = ConsistencyCheck.objects.get_or_create(ended_at=None, defaults={"asked_by": by})
        if row.began_at is None:
            transaction.on_commit(lambda: _tell(row.pk), robust=True)
    if is_new:
        old = ConsistencyCheck.objects.order_by("-pk").values_list("pk", flat=True)[KEPT:]
        ConsistencyCheck.objects.filter(pk__in=list(old)).delete()
    return row


def carry_out(run_id: int) -> None:
    """Do an audit that was asked for, unless somebody has begun it."""
    mine = ConsistencyCheck.objects.filter(pk=run_id, began_at=None, ended_at=None)
    if not mine.update(began_at=Now()):
        return
    ended: dict[str, Any] = {"failure": "The audit itself failed; the worker's log says why."}
    try:
        found = audit(limits=Limits(), history=HISTORY, confirm=CONFIRM_SECONDS, mend=False)
        ended = {"report": bounded(as_json(found))}
    finally:  # whatever went wrong is logged with its trace by Celery; who asked does not wait for nothing
        ConsistencyCheck.objects.filter(pk=run_id, ended_at=None).update(ended_at=Now(), **ended)


def bounded(report: dict[str, Any]) -> dict[str, Any]:
    """The report with its first findings; ``counts`` still counts all."""
    findings = report["findings"]
    left_out = max(0, len(findings) - MOST_FINDINGS)
    return {**report, "findings": findings[:MOST_FINDINGS], "findings_left_out": left_out}


def _tell(run_id: int) -> None:
    try:
        current_app.send_task(RUN, args=[run_id], retry=False)
    except (KombuError, OSError) as error:
        log.warning("audit_not_told", error=str(error))
