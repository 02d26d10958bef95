"""A report as a table for people, and what moved since an earlier one.

A figure is named by its path in the report. Lists are left out: they are the rounds from which a figure
beside them was made.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

MOVED_SHARE = 0.1
"""A figure that differs by less has not moved: two runs of one program differ by as much."""
LEFT_OUT = ("machine_before",)


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


def table(report: Mapping[str, Any]) -> str:
    """All figures of a report, one in a line."""
    return _aligned([("figure", "value"), *((name, _text(value)) for name, value in figures(report).items())])


def comparison(report: Mapping[str, Any], earlier: Mapping[str, Any]) -> str:
    """The figures that both reports have and that moved; another machine is named first."""
    before, after = figures(earlier), figures(report)
    shares = {name: (after[name] - before[name]) / before[name] for name in after if before.get(name)}
    moved = {name: share for name, share in shares.items() if abs(share) >= MOVED_SHARE}
    rows = [(name, _text(before[name]), _text(after[name]), f"{share:+.0%}") for name, share in moved.items()]
    machines = [earlier["environment"], report["environment"]]
    lines = ["Another machine: compare ratios alone."] if machines[0] != machines[1] else []
    lines.append(_aligned([("figure", "before", "after", "change"), *rows]))
    lines.append(f"{len(shares) - len(moved)} figures moved by less than {MOVED_SHARE:.0%}.")
    return "\n".join(lines)


def _text(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


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
