"""Taking back the condition of a group that makes progress again."""

from datetime import datetime, timedelta

from pools import conditions
from workflows.lifecycle.attempts_in_vain import NO_PROGRESS, NO_PROGRESS_ENDED, PROGRESS
from workflows.reconcile.view.group_view import GroupView
from workflows.services.lease import Lease
from workflows.services.record import record


def record_progress(view: GroupView, lease: Lease) -> datetime | None:
    """Take the condition back once the attempt has run for long enough; returns when that will be."""
    since = view.row.ran_since
    if since is None or conditions.status_of(view.row.conditions, NO_PROGRESS) != "True":
        return None
    at = since + timedelta(seconds=PROGRESS)
    if view.now < at:
        return at
    record(lease, [NO_PROGRESS_ENDED])
    return None
