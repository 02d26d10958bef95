"""Faults and errors of the core.

A *fault* is one error in a document: its place, its kind, and what would be accepted. Checks return all the
faults they find, so an author corrects everything at once; a check raises only if it cannot continue.
Rejected: raising at the first fault, which costs the author one round trip for each.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

MAX_FAULTS = 1_000
"""Faults that an error keeps: nobody reads more, and each may list all that would be accepted."""

LONGEST_STEP = 320
"""Characters that are shown of one name in a path; a label's key, the longest that is accepted, has 317."""
LONGEST_PATH = 1_000
MOST_ALLOWED = 300_000
"""Characters that an error keeps of what would be accepted: later faults say so in their messages alone."""

Path = tuple[str | int, ...]


def format_path(path: Path) -> str:
    """Write a path as people do: ``("tasks", 1, "name")`` is ``tasks[1].name``.

    Names are the author's, of any length, and each fault has a path: the part of them that nobody reads is
    cut off.
    """
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            name = _shortened(step, LONGEST_STEP)
            text += f".{name}" if text else name
    return _shortened(text, LONGEST_PATH)


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."


def path_order(path: Path) -> tuple[tuple[int, int, str], ...]:
    """Sort key of a path: places by number, names by letter."""
    return tuple((0, step, "") if isinstance(step, int) else (1, 0, step) for step in path)


@dataclass(frozen=True, slots=True)
class Fault:
    """One error in a document. ``line`` and ``column`` count from 1, and are None without a document."""

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
    """Something accepted that the user should know. A notice never refuses."""

    code: str
    message: str
    path: Path = field(default=())


def in_order(faults: Iterable[Fault]) -> list[Fault]:
    """Faults sorted by place, each once: a resource that many tasks share is wrong once."""
    once = {(fault.path, fault.code, fault.message): fault for fault in faults}
    return sorted(once.values(), key=lambda fault: (path_order(fault.path), fault.code, fault.message))


def more_faults(number: int, *, path: Path) -> Fault:
    """The last fault of a list that leaves out at least so many."""
    return Fault(path, "too_many_faults", f"There are at least {number:,} more faults, which are not listed.")


def at_most(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """The first faults, and one that counts the others, without endless lists of what would be accepted."""
    faults = tuple(faults)
    if len(faults) > MAX_FAULTS + 1:
        place = faults[MAX_FAULTS]
        last = more_faults(len(faults) - MAX_FAULTS, path=place.path)
        faults = (*faults[:MAX_FAULTS], replace(last, line=place.line, column=place.column))
    return tuple(_with_short_lists(faults))


def _with_short_lists(faults: Iterable[Fault]) -> Iterator[Fault]:
    left = MOST_ALLOWED
    for fault in faults:
        if fault.allowed is None:
            yield fault
            continue
        allowed = tuple(_shortened(value, LONGEST_STEP) for value in fault.allowed)
        left -= sum(map(len, allowed))
        yield replace(fault, allowed=allowed if left >= 0 else None)


class TopologyError(Exception):
    """Base of everything this product raises on purpose; ``code`` is stable and machine-readable."""

    code = "USER"

    def __init__(self, message: str, faults: Iterable[Fault] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.faults = at_most(faults)


class InvalidSpec(TopologyError):
    """The document cannot be accepted; ``faults`` has everything that is wrong with it."""

    code = "USAGE"


class UnsupportedCapability(TopologyError):
    """A scheduler cannot hold a requirement."""

    code = "USAGE"


class NotFound(TopologyError):
    """No such object, or none the caller may see."""

    code = "USER"


class Forbidden(TopologyError):
    """The caller may not do this."""

    code = "USER"


class Conflict(TopologyError):
    """The object is not in the state, or at the revision, that the request needs."""

    code = "USER"


class Ended(TopologyError):
    """The object has ended, and with it what is asked for."""

    code = "USER"


class TooEarly(TopologyError):
    """The object has not come so far yet; later the same request may succeed."""

    code = "USER"


class PreconditionFailed(Conflict):
    """The object is not at the revision that the caller has read."""


class LimitReached(TopologyError):
    """A user or a pool has reached a limit; ``faults`` names each."""

    code = "SUBMISSION"


class Busy(TopologyError):
    """The service cannot accept more work now; ``retry_after`` says after how many seconds to try again."""

    code = "BUSY"

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Unavailable(TopologyError):
    """The service cannot do its part now, for a reason of its own; ``retry_after`` as for Busy."""

    code = "SERVER"
    retry_after = 5
