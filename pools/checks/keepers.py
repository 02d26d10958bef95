"""What a pool's keeper may set of its queue, within what the backend allows. Pure.

A keeper has ``config:Update`` on the pool and not on its backend. A value that does not change is never at
fault, nor is one that asks for less than before.
"""

import math
from collections.abc import Mapping, Sequence

from pools.checks.privilege import Content
from scheduling.capabilities import NO_SHARE


def over_share_limit(before: Content, after: Content, limit: Mapping[str, float]) -> list[str]:
    """The fields of a pool's share of GPUs that a change raises over the backend's limit, with values."""
    raised = []
    for field, most in limit.items():
        value = _amount(after, field)
        if value > max(most, _amount(before, field)):
            number = "unlimited" if math.isinf(value) else f"{value:g}"
            raised.append(f"resources.gpu.{field} {number} instead of at most {most:g}")
    return raised


def _amount(pool: Content, field: str) -> float:
    value = float((pool["resources"].get("gpu") or {}).get(field, NO_SHARE[field]))
    return math.inf if value < 0 else value


def refused_queue(queue: str, *, listed: Sequence[str], owner: str) -> str:
    """Why a keeper may not join a LocalQueue; empty if they may.

    ``listed`` are those that the backend lists, ``owner`` is who has the queue where it lists none.
    """
    if listed:
        return "" if queue in listed else f"The backend lists {', '.join(listed)}."
    return f"It belongs to {owner}." if owner else ""
