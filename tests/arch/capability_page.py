"""The documentation page of capabilities, written from the table that refusals read.

``python -m tests.arch.capability_page > docs/reference/capabilities.md``; a test compares the two.
"""

import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from scheduling.backends.facets import Rendering
from scheduling.backends.registry import collect
from scheduling.capabilities import MEANING, Capability
from tests.arch.kueue_capabilities import section

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


@dataclass(frozen=True, slots=True)
class CapabilityRow:
    """One line of the table: ``since`` says by scheduler from which version, ``no``, or how many."""

    capability: str
    meaning: str
    since: Mapping[str, str]


def rows(backends: Collection[Rendering]) -> tuple[CapabilityRow, ...]:
    """The table of capabilities over these scheduler backends."""
    return (
        *(
            CapabilityRow(
                str(capability),
                MEANING[capability],
                {backend.name: _since(backend, capability) for backend in backends},
            )
            for capability in Capability
        ),
        CapabilityRow(
            "max_levels",
            "the most topology keys of a pool",
            {backend.name: str(backend.capabilities(None).max_levels) for backend in backends},
        ),
    )


def _since(backend: Rendering, capability: Capability) -> str:
    needed = backend.needs.get(capability)
    return "no" if needed is None else str(needed)


def page(backends: Iterable[Rendering]) -> str:
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
