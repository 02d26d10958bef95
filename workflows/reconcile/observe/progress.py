"""Taking back the condition of a group that makes progress again."""

from datetime import timedelta

from pools import conditions
from workflows.lifecycle.attempts_in_vain import NO_PROGRESS, NO_PROGRESS_ENDED, PROGRESS
from workflows.reconcile.turn import Turn


def record_progress(turn: Turn) -> Turn:
    """Take the condition back once the attempt has run for long enough, for which it is looked at again."""
    row = turn.view.row
    if row.ran_since is None or conditions.status_of(row.conditions, NO_PROGRESS) != "True":
        return turn
    at = row.ran_since + timedelta(seconds=PROGRESS)
    if turn.view.now < at:
        return turn.at(at)
    turn.record([NO_PROGRESS_ENDED])
    return turn
