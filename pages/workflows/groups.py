"""The groups of a workflow on its page: a table, and a drawing of their dependencies."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from pages.workflows.graph import BOX_HEIGHT, BOX_WIDTH, Arrow, Drawing, draw
from pages.workflows.labels import Badge, span, status_badge
from scheduling.sentences import count_of, first
from workflows.explain.reasons import MOST_UPSTREAM
from workflows.group_reads import GROUPS_AT_ONCE
from workflows.lifecycle.patience import ConstraintRow
from workflows.lifecycle.statuses import TERMINAL
from workflows.models import TaskGroup

BOX_TEXT = 23
"""Characters that a line in a box of the drawing has room for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLine:
    """A group, with how many of its tasks there are in each status."""

    anchor: str
    name: str
    badge: Badge
    tasks: tuple[tuple[Badge, int], ...]
    upstream: tuple[str, ...]
    constraints: tuple[str, ...]
    failure: str
    attempt: str
    recovery: str
    start_time: datetime | None
    end_time: datetime | None
    run_time: str

    @property
    def depends_on(self) -> str:
        names, more = first(self.upstream, MOST_UPSTREAM)
        return f"{', '.join(names)} {more}".strip()

    @property
    def size(self) -> int:
        return sum(number for _, number in self.tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPage:
    """One page of the groups. ``first`` counts from 1; ``earlier`` and ``later`` are offsets."""

    rows: tuple[GroupLine, ...]
    first: int
    earlier: int | None
    later: int | None

    @classmethod
    def of(cls, rows: tuple[GroupLine, ...], *, first: int, more: bool) -> Self:
        """The page of these groups, from the ``first``th on, which counts from 0."""
        earlier = max(0, first - GROUPS_AT_ONCE) if first else None
        return cls(rows=rows, first=first + 1, earlier=earlier, later=first + len(rows) if more else None)

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1

    @property
    def is_whole(self) -> bool:
        return self.earlier is None and self.later is None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxView:
    """A group's box in the drawing, with where its lines of text begin."""

    group: GroupLine
    x: float
    y: float
    title: str
    line: str

    @property
    def text_x(self) -> float:
        return self.x + 14

    @property
    def title_y(self) -> float:
        return self.y + 25

    @property
    def line_y(self) -> float:
        return self.y + 46


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphView:
    boxes: tuple[BoxView, ...]
    arrows: tuple[Arrow, ...]
    width: float
    height: float
    box_width: int = BOX_WIDTH
    box_height: int = BOX_HEIGHT


def group_line(
    group: TaskGroup, counts: Mapping[str, int], *, upstream: Iterable[str], now: datetime
) -> GroupLine:
    return GroupLine(
        anchor=f"group-{group.pk.hex}",
        name=group.name,
        badge=status_badge(group.status if group.status in TERMINAL else group.present_status),
        tasks=tuple((status_badge(status), number) for status, number in sorted(counts.items())),
        upstream=tuple(upstream),
        constraints=_constraints(group.constraints),
        failure=group.failure_message,
        attempt=_attempt(group),
        recovery=group.recovery.summary,
        start_time=group.start_time,
        end_time=group.end_time,
        run_time=span(group.start_time, group.end_time, now=now),
    )


def _attempt(group: TaskGroup) -> str:
    """Which attempt it is at, once it is not the first one."""
    if group.attempt_number == 1:
        return ""
    if group.status in TERMINAL:
        return f"after {group.attempt_number} attempts"
    return f"attempt {group.attempt_number}"


def _constraints(lines: Sequence[ConstraintRow]) -> tuple[str, ...]:
    """The requirements that its scheduler gets; sets with equal requirements share a line."""
    alike = Counter(
        (str(line.get("key")), str(line.get("requirementType")), line.get("tasks"), _remark(line))
        for line in lines
    )
    return tuple(
        f"one {key} {kind} for {_for_sets(number, tasks)}{remark}"
        for (key, kind, tasks, remark), number in alike.items()
    )


def _remark(line: ConstraintRow) -> str:
    """The outcome of a preference that was relaxed or gave way."""
    if line.get("domain"):
        return f", kept in {'/'.join(line['domain'])}"
    if line.get("freed"):
        return f", now one {line['applied_key']}" if line.get("applied_key") else ", gave way"
    return ", given up" if line.get("relaxed") else ""


def _for_sets(sets: int, tasks: Any) -> str:
    size = len(tasks) if isinstance(tasks, list) else int(tasks or 0)
    return count_of(size, "task") if sets == 1 else f"each of {sets} sets of {count_of(size, 'task')}"


def graph_view(groups: Sequence[GroupLine]) -> GraphView | None:
    drawing: Drawing | None = draw({group.name: group.upstream for group in groups})
    if drawing is None:
        return None
    boxes = tuple(
        BoxView(group=group, x=box.x, y=box.y, title=_short(group.name, 20), line=_box_line(group))
        for group, box in zip(groups, drawing.boxes, strict=True)
    )
    return GraphView(boxes=boxes, arrows=drawing.arrows, width=drawing.width, height=drawing.height)


def _box_line(group: GroupLine) -> str:
    full = f"{group.badge.word} · {count_of(group.size, 'task')}"
    return full if len(full) <= BOX_TEXT else _short(f"{group.badge.word} · {group.size:,}", BOX_TEXT)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
