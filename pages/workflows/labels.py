"""Statuses and lengths of time on a page: a word, a symbol and a tone, never a colour alone.

The tones are classes of the frame's badges. Symbols are decoration: a screen reader reads the word.
"""

from dataclasses import dataclass
from datetime import datetime

from workflows.lifecycle.statuses import TERMINAL, WORKFLOW_TERMINAL, TaskStatus, WorkflowStatus

MINUTE = 60
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_ENDED = frozenset(map(str, TERMINAL)) | frozenset(map(str, WORKFLOW_TERMINAL))


@dataclass(frozen=True, slots=True)
class Badge:
    """The appearance of a status. ``status`` is OSMO's name of it."""

    status: str
    word: str
    symbol: str
    tone: str

    @property
    def ended(self) -> bool:
        return self.status in _ENDED


def status_badge(status: str) -> Badge:
    """The badge of a status of a workflow, a group or a task; an unknown one is shown by its name."""
    match status:
        case TaskStatus.COMPLETED | WorkflowStatus.COMPLETED:
            symbol, tone = "✓", "good"
        case TaskStatus.RUNNING | WorkflowStatus.RUNNING:
            symbol, tone = "▶", "busy"
        case TaskStatus.FAILED_CANCELED | WorkflowStatus.FAILED_CANCELED:
            return Badge(status, "Cancelled", "⊘", "")
        case TaskStatus.RESCHEDULED:
            symbol, tone = "↻", ""
        case _ if status.startswith("FAILED"):
            return Badge(status, _failed(status), "✕", "bad")
        case TaskStatus.INITIALIZING:
            symbol, tone = "◔", "busy"
        case _:
            symbol, tone = "◷", "warn"
    return Badge(status, status.replace("_", " ").capitalize(), symbol, tone)


def _failed(status: str) -> str:
    _, _, how = status.partition("_")
    return f"Failed: {how.replace('_', ' ').lower()}" if how else "Failed"


def span(start: datetime | None, end: datetime | None, *, now: datetime) -> str:
    """A duration; one that has not ended is in whole minutes, so that the page changes less often."""
    if start is None:
        return ""
    seconds = max(0, int(((end or now) - start).total_seconds()))
    if end is None and seconds < MINUTE:
        return "under a minute"
    return duration(seconds if end else seconds - seconds % MINUTE)


def duration(seconds: int) -> str:
    """A length of time in its two largest units: ``2 d 3 h``, ``4 min``, ``12 s``."""
    parts = [
        (seconds // DAY, "d"),
        (seconds % DAY // HOUR, "h"),
        (seconds % HOUR // MINUTE, "min"),
        (seconds % MINUTE, "s"),
    ]
    first = next((index for index, (count, _) in enumerate(parts) if count), len(parts) - 1)
    texts = [f"{count} {unit}" for count, unit in parts[first : first + 2] if count]
    return " ".join(texts) or "0 s"
