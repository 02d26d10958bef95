"""Scheduler backends by name: the built-in ones, and those that installed packages add.

A package adds one by an entry point in group ``osmo_topology.schedulers`` whose object is a class (or
function) that gives a ``SchedulerBackend`` without arguments. The built-in ones are declared the same way
in ``pyproject.toml`` and also listed here, so that a checkout works without being installed. Two
different backends of one name would make placement depend on the order of packages: an error.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from scheduling.backends.base import HidesUnlabelled, PodKeyReader, SchedulerBackend
from scheduling.backends.default import Default
from scheduling.backends.kai import Kai
from scheduling.backends.kubernetes import Kubernetes
from scheduling.backends.kueue import Kueue
from scheduling.errors import Conflict, NotFound

GROUP = "osmo_topology.schedulers"

BUILT_IN = (Kai, Kubernetes, Kueue, Default)


def collect(points: Iterable[EntryPoint]) -> Mapping[str, SchedulerBackend]:
    """All backends by name. Raises Conflict if two differ under one name."""
    makers = {make.name: make for make in BUILT_IN}
    backends: dict[str, SchedulerBackend] = {make.name: make() for make in BUILT_IN}
    for point in points:
        make = point.load()
        if makers.get(point.name) is make:
            continue
        backend = make()
        if point.name in backends or backend.name != point.name:
            raise Conflict(
                f'Entry point "{point.name}" ({point.value}) gives scheduler backend "{backend.name}"; a '
                "name is that of its entry point and belongs to one backend."
            )
        makers[point.name] = make
        backends[point.name] = backend
    return backends


@cache
def installed() -> Mapping[str, SchedulerBackend]:
    """The backends of this process, read once: packages do not change while it runs."""
    return collect(entry_points(group=GROUP))


def scheduler_backend(name: str) -> SchedulerBackend:
    """The backend of this name. Raises NotFound, saying which there are."""
    backends = installed()
    if name not in backends:
        raise NotFound(f'There is no scheduler backend "{name}"; there are {", ".join(sorted(backends))}.')
    return backends[name]


def hides_unlabelled(name: str) -> bool:
    """Whether this scheduler sees no node that lacks the label of any level."""
    backend = installed().get(name)
    return isinstance(backend, HidesUnlabelled) and backend.hides_unlabelled


def is_read_label(key: str) -> bool:
    """Whether some scheduler reads the label of this key on pods."""
    return any(
        isinstance(backend, PodKeyReader) and backend.reads_label(key) for backend in installed().values()
    )


def is_read_annotation(key: str) -> bool:
    """Whether some scheduler reads the annotation of this key on pods."""
    return any(
        isinstance(backend, PodKeyReader) and backend.reads_annotation(key)
        for backend in installed().values()
    )
