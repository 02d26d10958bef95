"""A workflow's events as lines of a timeline: the same event of several tasks is one line.

512 tasks that are placed together would otherwise be 512 equal lines. Events are merged if they have the same
reason and source within some seconds; warnings only if their texts differ in the task alone, so that none
hides another. A line of events with different texts has all of them. Pure.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from scheduling.sentences import plain_listing

WINDOW = timedelta(seconds=10)
NAMED = 3
MOST_MESSAGES = 50
"""What the events of one line said that is listed."""

LONG = 200
"""Characters of a message above which its line shows the beginning alone."""

_ID = re.compile(r"[0-9a-f]{32}(-[0-9]+)?")

WarningKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventText:
    """An event. ``about`` is its task or group, empty for the workflow."""

    time: datetime
    about: str
    source: str
    warning: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineLine:
    """One event, or several merged ones. ``messages`` are theirs, where they are more than ``text``."""

    time: datetime
    until: datetime | None
    about: str
    count: int
    source: str
    warning: bool
    reason: str
    text: str
    messages: tuple[tuple[str, str], ...]
    more: int


def timeline(events: Iterable[EventText]) -> tuple[TimelineLine, ...]:
    """Merge what is alike; ``events`` come in order of time, and the lines are in order of their first."""
    runs: list[list[EventText]] = []
    last: dict[WarningKey, list[EventText]] = {}
    for event in events:
        key = _key(event)
        run = last.get(key)
        if run is not None and event.time - run[0].time <= WINDOW:
            run.append(event)
            continue
        last[key] = [event]
        runs.append(last[key])
    return tuple(map(_line, runs))


def _key(event: EventText) -> WarningKey:
    return event.reason, event.source, _common_text(event) if event.warning or not event.about else "normal"


def _common_text(event: EventText) -> str:
    """A message without the parts that differ from task to task: names, and ids of pods."""
    text = _ID.sub("", event.message)
    if not event.about:
        return f"workflow: {text}"
    return re.sub(rf"(?<![\w-]){re.escape(event.about)}(?![\w-])", "", text)


def _line(run: Sequence[EventText]) -> TimelineLine:
    first, end = run[0], run[-1].time
    alike = len({_common_text(event) for event in run}) == 1
    text = first.message
    listed = [] if alike and len(text) <= LONG else run[:1] if alike else run[:MOST_MESSAGES]
    return TimelineLine(
        time=first.time,
        until=end if int(end.timestamp()) > int(first.time.timestamp()) else None,
        about=_names(run),
        count=len(run),
        source=first.source,
        warning=first.warning,
        reason=first.reason,
        text=text if len(text) <= LONG else f"{text[:LONG].rstrip()} …",
        messages=tuple((event.about if not alike else "", event.message) for event in listed),
        more=max(0, len(run) - MOST_MESSAGES) if not alike else 0,
    )


def _names(run: Sequence[EventText]) -> str:
    names = list(dict.fromkeys(event.about for event in run if event.about))
    return plain_listing(names, limit=NAMED)
