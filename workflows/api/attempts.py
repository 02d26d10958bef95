"""A group's attempts as REST shows them: those that ended, and the present one."""

from workflows.api import shapes
from workflows.group_reads import ReadGroup
from workflows.models import Attempt


def attempts_of(group: ReadGroup) -> list[shapes.AttemptShape]:
    """In order."""
    ended = sorted(group.attempts.all(), key=_number) if group.attempt_number > 1 else []
    return [*(_ended(attempt) for attempt in ended), _present(group)]


def _number(attempt: Attempt) -> int:
    return attempt.number


def _ended(attempt: Attempt) -> shapes.AttemptShape:
    return shapes.AttemptShape(
        number=attempt.number,
        status=attempt.status,
        cause=attempt.loss,
        evidence=attempt.evidence,
        message=attempt.message,
        counted=attempt.counted,
        begin_time=attempt.began_at,
        not_before=None,
        start_time=attempt.start_time,
        end_time=attempt.end_time,
        cleared_at=attempt.cleared_at,
        nodes=attempt.nodes,
    )


def _present(group: ReadGroup) -> shapes.AttemptShape:
    is_first = group.attempt_number == 1
    return shapes.AttemptShape(
        number=group.attempt_number,
        status=group.present_status,
        cause=None,
        evidence="",
        message=group.failure_message,
        counted=False,
        begin_time=group.processing_start_time if is_first else group.attempt_began_at,
        not_before=group.attempt_not_before,
        start_time=group.start_time if is_first else group.first_start,
        end_time=group.end_time,
        cleared_at=group.released_at,
        nodes=group.nodes,
    )
