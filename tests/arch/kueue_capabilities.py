"""The part of the page of capabilities about Kueue: versions and shapes of gangs, from the code itself."""

from collections.abc import Iterable, Iterator, Sequence

from scheduling.backends.kueue.pod_sets import pod_sets
from scheduling.backends.kueue.render import Kueue
from scheduling.backends.kueue.version import RELEASES, KueueRelease
from scheduling.gang.checks import check_gang
from scheduling.gang.slices import required_around
from scheduling.sentences import count_of
from scheduling.topology.levels import Level
from scheduling.topology.requirements import Gang, GangTask, Requirement

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

_SHAPES_HEAD = """
A definition does not tell 0.19.0, which does not look again, from 0.19.1: use 0.19.1 or later.

### Shapes of gangs on Kueue

The answer of a submission, and the pod sets that hold the gang. *Held by us*: the service chooses the domain
in which there is room and keeps every pod set there by node labels; it chooses anew while nothing is admitted
([more](schedulers.md#kueue)). *Ignored* names what a pool with
`unsupported_preferred: warn` gives up, with a warning; without it such a gang is refused.

"""

_KEYS = tuple(Level(key, key) for key in ("zone", "rack"))

ShapeLine = tuple[int, str]
"""How many tasks ask for this: ``zone! z, rack? r`` is a required zone and a preferred rack."""

SHAPES: dict[str, tuple[ShapeLine, ...]] = {
    "tasks without requirement": ((4, ""),),
    "one set, required": ((4, "rack! r"),),
    "one set, preferred": ((4, "rack? r"),),
    "two sets, required, and free tasks": ((4, "rack! r"), (4, "rack! s"), (2, "")),
    "two sets, preferred": ((4, "rack? r"), (4, "rack? s")),
    "equal required racks in a required zone": ((4, "zone! z, rack! r"), (4, "zone! z, rack! s")),
    "equal required racks in a preferred zone": ((4, "zone? z, rack! r"), (4, "zone? z, rack! s")),
    "unequal required racks in a preferred zone": ((4, "zone? z, rack! r"), (2, "zone? z, rack! s")),
    "preferred racks in a preferred zone": ((4, "zone? z, rack? r"), (4, "zone? z, rack? s")),
    "preferred racks in a required zone": ((4, "zone! z, rack? r"), (4, "zone! z, rack? s")),
    "unequal required racks in a required zone": ((4, "zone! z, rack! r"), (2, "zone! z, rack! s")),
    "a preferred rack and a required zone of the same tasks": ((4, "zone! z, rack? r"),),
    "9 equal sets": tuple((1, f"rack! {number}") for number in range(9)),
    "9 unequal sets": tuple((2 - bool(number), f"rack! {number}") for number in range(9)),
    "12 unequal sets": tuple((2 - bool(number), f"rack! {number}") for number in range(12)),
    "20 unequal sets": tuple((2 - bool(number), f"rack! {number}") for number in range(20)),
}


def section() -> str:
    """The section in Markdown."""
    return f"{_HEAD}{_table(_TITLES, map(_facts, RELEASES))}{_SHAPES_HEAD}{_shapes()}"


def _facts(release: KueueRelease) -> Sequence[str]:
    return (
        str(release.version),
        str(release.pod_sets),
        str(release.slice_layers),
        "yes" if release.sees_foreign_ends else "no",
        "yes" if release.counts_across_flavors else "no",
    )


def _shapes() -> str:
    bounds = {release.pod_sets: release for release in reversed(RELEASES)}
    releases = [bounds[most] for most in sorted(bounds)]
    titles = ("shape", *(f"from Kueue {release.version}" for release in releases))
    rows = ((shape, *(shape_answer(shape, at) for at in releases)) for shape in SHAPES)
    return _table(titles, rows)


def shape_answer(shape: str, release: KueueRelease) -> str:
    """The answer of a submission in the table."""
    gang, kueue = shape_gang(shape), Kueue()
    capabilities = kueue.capabilities(release.version)
    strict = kueue.check(gang, _KEYS, capabilities=capabilities)
    checked = kueue.check(gang, _KEYS, capabilities=capabilities, unsupported_preferred="warn")
    if checked.faults:
        lacking = sorted({str(fault.capability) for fault in checked.faults})
        return f"refused: {', '.join(f'`{name}`' for name in lacking)}"
    _, _, tree = check_gang(
        gang, _KEYS, capabilities=capabilities, domains=None, unsupported_preferred="warn"
    )
    assert tree is not None
    sets = pod_sets(tree)
    slices = ", in slices" if any(entry.slice_level is not None for entry in sets) else ""
    parts = f"{count_of(len(sets), 'pod set')}{slices}"
    if strict.faults:
        return f"{parts}; ignored: the preferred zone"
    return f"{'held by us' if required_around(tree.root) else 'accepted'}: {parts}"


def shape_gang(shape: str) -> Gang:
    """The gang of one of ``SHAPES``."""
    tasks = [
        GangTask(f"t{rank}-{number}", requirements=tuple(_requirements(text)))
        for rank, (count, text) in enumerate(SHAPES[shape])
        for number in range(count)
    ]
    return Gang("g", tuple(tasks))


def _requirements(text: str) -> Iterator[Requirement]:
    for word in filter(None, text.split(", ")):
        key, _, group = word.partition(" ")
        yield Requirement(key[:-1], group, required=key.endswith("!"))


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [_line(titles), "|" + "---|" * len(titles), *map(_line, rows)]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
