"""Why groups wait, cached for some seconds: a verdict on 5,000 nodes costs some tenths of a second.

A page reloads itself every few seconds for each reader. An explanation is cached in this process for twenty
times as long as it took to compute, so one workflow costs at most a twentieth of a processor for any number
of readers. The key contains the group's own reason, so a new reason shows at once; only the verdict can be
some seconds old. While one request computes, others get the cached value.
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
COMPUTING = 60
"""Seconds; after ``COMPUTING`` another request computes too."""


def cached_explanations(groups: Sequence[TaskGroup], *, user: Caller, now: datetime) -> list[WaitExplanation]:
    """Explain each waiting group, as ``workflows.explain.report`` does; reuse a good cached answer."""
    waiting = [group for group in groups if group.waiting_reason]
    if not waiting:
        return []
    key = f"why:{_digest(waiting, user)}"
    cached: tuple[float, list[WaitExplanation]] | None = cache.get(key)
    if cached and (cached[0] > time.monotonic() or not cache.add(f"{key}:computing", 1, COMPUTING)):
        return cached[1]
    began = time.monotonic()
    explanations = explain_waits(waiting, user=user, now=now)
    ended = time.monotonic()
    good_for = max(SHORTEST, SHARE * (ended - began))
    cache.set(key, (ended + good_for, explanations), LONGEST + good_for)
    cache.delete(f"{key}:computing")
    return explanations


def _digest(waiting: Sequence[TaskGroup], user: Caller) -> str:
    """A digest of the inputs of an answer: the groups, and the pools whose workflows the user may list."""
    pools = grants_of(user).names("pool", {Action.WORKFLOW_LIST})
    parts: list[object] = [sorted(pools) if pools is not None else None]
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
