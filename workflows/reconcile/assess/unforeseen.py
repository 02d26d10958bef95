"""An error that the code does not know ends one reconciliation of one group, and says so on the group.

Without this the lease would run out and the group would be tried again at the same pace for ever, which costs
a worker's thread each time and shows nothing to anybody but the log. So the group backs off, up to
``RETRY_MOST_UNFORESEEN``, and its condition ``ReconcileFailed``, its timeline and its waiting reason name the
class of the error. The error's text goes to the log alone: it may quote values of other objects.
"""

import structlog
from django.db import Error

from pools.conditions import Condition, status_of
from workflows.explain.reasons import Reason, Why
from workflows.reconcile.view.group_view import GroupView
from workflows.reconcile.view.outcomes import Unforeseen
from workflows.services.changes import Change, NewWaitingReason, Note
from workflows.services.lease import Lease, LeaseLost
from workflows.services.record import record

TYPE = "ReconcileFailed"

log = structlog.get_logger(__name__)


def note_unforeseen(lease: Lease, error: Exception) -> Unforeseen:
    """Record the error on the group, if the database takes that. Raises LeaseLost."""
    name = type(error).__name__
    message = (
        f"The service failed to reconcile the group ({name}); the worker's log has the details. It is tried "
        "again, at growing intervals."
    )
    changes: list[Change] = [
        Condition(type=TYPE, status="True", reason=name, message=message),
        Note(key=f"unforeseen:{name}", reason=TYPE, message=message, warning=True),
        NewWaitingReason(Reason(Why.UNFORESEEN, message)),
    ]
    try:
        record(lease, changes)
    except LeaseLost:
        raise
    except Error as fault:
        log.warning("reconcile_failure_not_recorded", group=str(lease.group_id), error=str(fault))
    return Unforeseen(trouble=message)


def note_recovery(lease: Lease, view: GroupView) -> None:
    """Take the condition back once a reconciliation has ended as it should."""
    if status_of(view.row.conditions, TYPE) == "True":
        record(lease, [Condition(type=TYPE, status="False", reason="Reconciled")])
