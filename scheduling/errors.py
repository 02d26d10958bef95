"""Faults and errors of the core.

A *fault* is one thing wrong with a document: where, what, and what would be accepted. Checks
return all the faults they find, so a reader mends everything in one go; only a caller that cannot go
on raises. Rejected: raising at the first fault, which costs the user one round trip a fault.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

Path = tuple[str | int, ...]


def format_path(path: Path) -> str:
    """Write a path as a reader would: ``("tasks", 1, "name")`` is ``tasks[1].name``."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def path_order(path: Path) -> tuple[tuple[int, int, str], ...]:
    """Sort key of a path: places by number, names by letter."""
    return tuple((0, step, "") if isinstance(step, int) else (1, 0, step) for step in path)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong. ``line`` and ``column`` count from 1 and are None where there is no document."""

    path: Path
    code: str
    message: str
    allowed: tuple[str, ...] | None = None
    line: int | None = None
    column: int | None = None
    capability: str | None = None
    """The capability whose lack is the fault, so that a caller can say which pools have it."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something accepted that the user should know of. Never a reason to refuse."""

    code: str
    message: str
    path: Path = field(default=())


def in_order(faults: Iterable[Fault]) -> list[Fault]:
    """Faults sorted by place, each once: a resource shared by many tasks is wrong only once."""
    once = {(fault.path, fault.code, fault.message): fault for fault in faults}
    return sorted(once.values(), key=lambda fault: (path_order(fault.path), fault.code, fault.message))


class TopologyError(Exception):
    """Base of everything this product raises on purpose; ``code`` is stable and machine-readable."""

    code = "USER"

    def __init__(self, message: str, faults: Iterable[Fault] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.faults = tuple(faults)


class InvalidSpec(TopologyError):
    """What was written cannot be accepted; ``faults`` holds everything found."""

    code = "USAGE"


class UnsupportedCapability(TopologyError):
    """A scheduler cannot hold what was asked of it."""

    code = "USAGE"


class NotFound(TopologyError):
    """No such object, or none the caller may see."""

    code = "USER"


class Forbidden(TopologyError):
    """The caller may not do this."""

    code = "USER"


class Conflict(TopologyError):
    """The object is not in the condition, or at the revision, that the request needs."""

    code = "USER"


class PreconditionFailed(Conflict):
    """The object is not at the revision that the caller saw."""


class LimitReached(TopologyError):
    """A user or a pool has as much as it may have at a time; ``faults`` names each limit."""

    code = "SUBMISSION"


class Busy(TopologyError):
    """More was asked for than can be taken on now; ``retry_after`` says in how many seconds to ask again."""

    code = "BUSY"

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after
