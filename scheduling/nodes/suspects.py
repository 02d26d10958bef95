"""Which nodes are suspect: several users' groups were lost on them lately; and which to avoid. Pure.

One user's groups may fail on a node because of what they do; groups of two users hardly do so by chance. Only
failures of the node itself count: it was lost, could not start a container, or left its NVLink domain. How a
container ended never counts.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

USERS = 2
"""Users whose groups a node must fail before it is suspect."""


class NodeFault(StrEnum):
    """How a node failed a group."""

    LOST = "node_lost"
    START = "start_error"
    NVLINK = "nvlink_fault"


@dataclass(frozen=True, slots=True)
class FailedGroup:
    """A group that a node failed, and its user."""

    user: str
    fault: NodeFault
    at: datetime


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Why a node is suspect: groups that it failed, their users, the faults; ``since`` is the last time."""

    groups: int
    users: int
    faults: tuple[str, ...]
    since: datetime


def suspicion(failures: Iterable[FailedGroup], *, now: datetime, window: timedelta) -> Suspicion | None:
    """The suspicion that the failures of one node within ``window`` give; None for too few users."""
    recent = [failure for failure in failures if failure.at > now - window]
    users = {failure.user for failure in recent}
    if len(users) < USERS:
        return None
    faults = sorted({str(failure.fault) for failure in recent})
    return Suspicion(len(recent), len(users), tuple(faults), max(failure.at for failure in recent))


def most_avoided(nodes: Sequence[str], *, never: Callable[[Sequence[str]], bool]) -> tuple[str, ...]:
    """The nodes to avoid: as many of the first as leave a place, the most important first.

    ``never`` says whether a group could never be placed without these nodes. Where it could not even with all
    of them, it is not these that it lacks, and all are avoided.
    """
    if not nodes or not never(nodes) or never(()):
        return tuple(nodes)
    least, most = 0, len(nodes) - 1
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (least, middle - 1) if never(nodes[:middle]) else (middle, most)
    return tuple(nodes[:least])
