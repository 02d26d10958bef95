"""The part of the page of capabilities about versions of Kueue, from what the service reads."""

from collections.abc import Iterator

from scheduling.backends.kueue.version import RELEASES

_HEAD = """\
## Kueue by version

A gang on Kueue is one Workload, with a pod set for each co-location set and each kind of free task. The
version is that of the definition of `Workload` in the cluster.

"""

_TITLES = (
    "from Kueue",
    "pod sets of a Workload",
    "layers of slices (one is used)",
    "looks at a waiting Workload again when a pod that is not Kueue's ends",
    "counts use by node across flavors",
)

_TAIL = """
A definition does not tell 0.19.0, which does not look again, from 0.19.1: use 0.19.1 or later.
"""


def section() -> str:
    """The section in Markdown."""
    return _HEAD + "\n".join(_lines()) + "\n" + _TAIL


def _lines() -> Iterator[str]:
    yield f"| {' | '.join(_TITLES)} |"
    yield "|" + "---|" * len(_TITLES)
    for release in RELEASES:
        cells = (
            release.version,
            release.pod_sets,
            release.slice_layers,
            "yes" if release.sees_foreign_ends else "no",
            "yes" if release.counts_across_flavors else "no",
        )
        yield f"| {' | '.join(str(cell) for cell in cells)} |"
