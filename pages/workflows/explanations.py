"""Why groups wait, explained once for all readers with the same rights, in seconds that follow from its cost.

An explanation is good for twenty times as long as it took to compute, so one workflow costs at most a
twentieth of a processor for any number of readers. The key contains the group's own reason, so a new reason
shows at once; only the verdict can be some seconds old.
"""

import time
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256

from pages.drawn import drawn_explanations
from pools.selectors import Caller
from web.access.rights import grants_of
from workflows.explain.report import WaitExplanation, explain_waits
from workflows.models import TaskGroup

SHARE = 20
SHORTEST = 10.0


def explanations_of(groups: Sequence[TaskGroup], *, user: Caller, now: datetime) -> list[WaitExplanation]:
    """Explain each waiting group, as ``workflows.explain.report`` does; reuse an answer that is good."""
    waiting = [group for group in groups if group.waiting_reason]
    if not waiting:
        return []
    key = f"why:{_digest(waiting, user)}"
    drawn: list[WaitExplanation] | None = drawn_explanations.find(key)
    if drawn is not None:
        return drawn
    began = time.monotonic()
    explanations = explain_waits(waiting, user=user, now=now)
    drawn_explanations.keep(key, explanations, seconds=max(SHORTEST, SHARE * (time.monotonic() - began)))
    return explanations


def _digest(waiting: Sequence[TaskGroup], user: Caller) -> str:
    """A digest of the inputs of an answer: the reader's rights, and the groups."""
    parts: list[object] = [grants_of(user)]
    parts += [
        (
            group.pk,
            group.status,
            group.stage,
            group.preference_levels,
            group.set_order,
            group.pins,
            group.waiting_why,
            group.waiting_reason,
            group.waiting_since,
            group.conditions,
        )
        for group in waiting
    ]
    return sha256(repr(parts).encode()).hexdigest()
