"""Why groups wait, kept for a while, because a verdict on 5,000 nodes costs some tenths of a second.

A page loads itself every few seconds, for each of those who look at it. What was found is kept in this
process for twenty times as long as it took to find, so that however many look, one workflow costs at most a
twentieth of a processor. What a group itself says of its waiting is part of the key, so news of it are told
at once; only the verdict can be old, by seconds. While somebody finds anew, others get what was kept.
"""

import time
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256

from django.core.cache import cache

from pools.selectors import Caller
from web.access import grants_of
from web.policy import Action
from workflows.explain.report import WaitExplanation, explain_waits
from workflows.models import TaskGroup

SHARE = 20
SHORTEST = 10.0
LONGEST = 300
FINDING = 60
"""Seconds; ``FINDING`` is how long one is trusted to be at it before somebody else begins."""


def cached_explanations(groups: Sequence[TaskGroup], *, user: Caller, now: datetime) -> list[WaitExplanation]:
    """Explain each waiting group, as ``workflows.explain.report`` does; reuse a kept answer that holds."""
    waiting = [group for group in groups if group.waiting_reason]
    if not waiting:
        return []
    key = f"why:{_digest(waiting, user)}"
    cached: tuple[float, list[WaitExplanation]] | None = cache.get(key)
    if cached and (cached[0] > time.monotonic() or not cache.add(f"{key}:finding", 1, FINDING)):
        return cached[1]
    began = time.monotonic()
    explanations = explain_waits(waiting, user=user, now=now)
    ended = time.monotonic()
    good_for = max(SHORTEST, SHARE * (ended - began))
    cache.set(key, (ended + good_for, explanations), LONGEST + good_for)
    cache.delete(f"{key}:finding")
    return explanations


def _digest(waiting: Sequence[TaskGroup], user: Caller) -> str:
    """What it hangs on: what the groups say, and in which pools the user may know workflows by name."""
    pools = grants_of(user).names("pool", {Action.WORKFLOW_LIST})
    parts: list[object] = [sorted(pools) if pools is not None else None]
    parts += [
        (
            group.pk,
            group.status,
            group.stage,
            group.waiting_why,
            group.waiting_reason,
            group.waiting_since,
            group.conditions,
        )
        for group in waiting
    ]
    return sha256(repr(parts).encode()).hexdigest()
