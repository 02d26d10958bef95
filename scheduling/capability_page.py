"""The documentation page of capabilities, written from the table that refusals read.

``python -m scheduling.capability_page > docs/reference/capabilities.md``; a test compares the two.
"""

import sys
from collections.abc import Iterable

from scheduling.backends.kueue.capability_section import section
from scheduling.backends.registry import collect
from scheduling.capabilities import CapabilityRow, Capable, rows

_HEAD = """\
# What schedulers can hold

A *capability* is something that a scheduler backend can do, from the scheduler version in this table; "no"
means in no version. A workflow that needs a missing one is refused; the answer names the capability and the
pools that have it. A pool with `unsupported_preferred: warn` ignores preferences for lack of
`topology.preferred`, and on `kueue` those around other preferred sets, with a warning.

The service reads a scheduler's version from the schemas of its cluster. An unknown version counts as the
oldest supported one. On `kueue`, `queue.limit` is held by backends with [queues of the service's
own](../how-to/kueue-pool.md#queues-of-the-services-own).

"""


def page(backends: Iterable[Capable]) -> str:
    """The page in Markdown."""
    ordered = sorted(backends, key=lambda backend: backend.name)
    titles = ["capability", "meaning", *(f"`{backend.name}`" for backend in ordered)]
    names = [backend.name for backend in ordered]
    lines = [_line(titles), _line(["---"] * len(titles)), *(_row(row, names) for row in rows(ordered))]
    return _HEAD + "\n".join(lines) + "\n\n" + section()


def _row(row: CapabilityRow, names: Iterable[str]) -> str:
    return _line([f"`{row.capability}`", row.meaning, *(row.since[name] for name in names)])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.stdout.write(page(backend.rendering for backend in collect(()).values()))
