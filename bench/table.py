"""A report as a table for people, and what moved since an earlier one.

A figure is named by its path in the report. Lists are left out: they are the rounds from which a figure
beside them was made.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MOVED_SHARE = 0.1
"""A figure that differs by less has not moved: two runs of one program differ by as much."""
LEFT_OUT = ("machine_before", "servers")
MACHINE = ("cores", "processor", "memory_gib", "python")


@dataclass(frozen=True, slots=True)
class Move:
    """A figure of two reports; None where a report lacks it."""

    name: str
    before: float | None
    after: float | None

    @property
    def share(self) -> float | None:
        """By which share of the earlier figure it moved; None where there is no such share."""
        return (self.after - self.before) / self.before if self.before and self.after is not None else None

    @property
    def has_moved(self) -> bool:
        share = self.share
        return self.before != self.after if share is None else abs(share) >= MOVED_SHARE


def figures(report: Mapping[str, Any]) -> dict[str, float]:
    """All numbers of a report's parts by their paths, in the report's order."""
    return dict(_numbers(report["parts"], ()))


def _numbers(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key not in LEFT_OUT:
                yield from _numbers(inner, (*path, str(key)))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield ".".join(path), value


def moves(report: Mapping[str, Any], earlier: Mapping[str, Any]) -> list[Move]:
    """Every figure of the parts that the report has, beside the earlier one."""
    after, before = figures(report), figures(earlier)
    parts = tuple(f"{part}." for part in report["parts"])
    missing = [name for name in before if name.startswith(parts) and name not in after]
    return [Move(name, before.get(name), after.get(name)) for name in (*after, *missing)]


def table(report: Mapping[str, Any]) -> str:
    """All figures of a report, one in a line."""
    return _aligned([("figure", "value"), *((name, _text(value)) for name, value in figures(report).items())])


def comparison(report: Mapping[str, Any], earlier: Mapping[str, Any]) -> str:
    """What moved since an earlier report, and how far the two can be compared at all."""
    all_moves = moves(report, earlier)
    moved = [move for move in all_moves if move.has_moved]
    rows = [(move.name, _text(move.before), _text(move.after), _percent(move.share)) for move in moved]
    lines = [*_doubts(report, earlier), _aligned([("figure", "before", "after", "change"), *rows])]
    lines.append(f"{len(all_moves) - len(moved)} figures moved by less than {MOVED_SHARE:.0%}.")
    return "\n".join(lines)


def _doubts(report: Mapping[str, Any], earlier: Mapping[str, Any]) -> list[str]:
    """Why figures of the two may differ although the program does not."""
    machine, earlier_machine = report["environment"], earlier["environment"]
    lines = [
        f"Another machine: {field} was {earlier_machine.get(field)} and is {machine.get(field)}. "
        "Compare ratios alone."
        for field in MACHINE
        if machine.get(field) != earlier_machine.get(field)
    ]
    if report["small"] != earlier["small"]:
        lines.append("One of the two is a small run. Compare no counts and no seconds.")
    return lines


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:+.0%}"


def _aligned(rows: Iterable[tuple[str, ...]]) -> str:
    """Rows as columns: the first to the left, numbers to the right."""
    rows = list(rows)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)
