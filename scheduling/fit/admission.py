"""A verdict on nodes, joined with what a scheduler checks before it looks at nodes."""

from dataclasses import replace

from scheduling.fit.verdict import Answer, Verdict
from scheduling.queues.queue_state import QuotaVerdict


def admitted(verdict: Verdict, quota: QuotaVerdict) -> Verdict:
    """The verdict on a gang whose queues were judged too: without their room it gets no place."""
    if not quota.shortages:
        return replace(verdict, quota=quota)
    answer = Answer.NEVER if quota.is_lasting else verdict.answer
    answer = Answer.NOT_NOW if answer is Answer.NOW else answer
    has_place = verdict.answer is Answer.NOW and not verdict.doubts
    proven = quota.is_lasting or has_place or verdict.proven
    return replace(verdict, quota=quota, answer=answer, proven=proven, places={}, order=())
