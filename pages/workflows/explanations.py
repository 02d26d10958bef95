"""Why groups wait, explained once for all readers with the same rights, in seconds that follow from its cost.

An explanation is good for twenty times as long as it took to compute, so one workflow costs at most a
twentieth of a processor for any number of readers. The key contains the group's own reason, so a new reason
shows at once; only the verdict can be some seconds old.
"""

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from hashlib import sha256
from typing import TypeVar

from pages.drawn import drawn_explanations
from pools.selectors import Caller
from web.access.rights import grants_of
from workflows.explain.report import WaitExplanation, explain_waits
from workflows.models import TaskGroup

SHARE = 20
SHORTEST = 10.0

T = TypeVar("T")


def explanations_of(groups: Sequence[TaskGroup], *, user: Caller, now: datetime) -> list[WaitExplanation]:
    """Explain each waiting group, as ``workflows.explain.report`` does; reuse an answer that is good."""
    waiting = [group for group in groups if group.waiting_reason]
    if not waiting:
        return []
    key = f"why:{_digest(waiting)}"
    return drawn_once(key, lambda: explain_waits(waiting, user=user, now=now), user=user)


def drawn_once(key: str, make: Callable[[], T], *, user: Caller) -> T:
    """What ``make`` returns, or returned a while ago for the same key and somebody with the same rights."""
    key = f"{key}:{sha256(repr(grants_of(user)).encode()).hexdigest()}"
    drawn: T | None = drawn_explanations.find(key)
    if drawn is not None:
        return drawn
    began = time.monotonic()
    drawn = make()
    drawn_explanations.keep(key, drawn, seconds=max(SHORTEST, SHARE * (time.monotonic() - began)))
    return drawn


def _digest(waiting: Sequence[TaskGroup]) -> str:
    """A digest of the inputs of an answer beside the reader's rights: the groups."""
    parts = [
        (
            group.pk,
            group.status,
            group.form,
            group.waiting_why,
            group.waiting_reason,
            group.waiting_since,
            group.conditions,
        )
        for group in waiting
    ]
    return sha256(repr(parts).encode()).hexdigest()
