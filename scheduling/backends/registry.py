"""Scheduler backends by name: the built-in ones, and those that installed packages add.

A package adds one by an entry point in group ``osmo_topology.scheduler_backends`` whose object is a
``SchedulerBackend``. Two backends of one name would make placement depend on the order of packages: an error.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from scheduling.backends.default import DEFAULT
from scheduling.backends.facets import NO_TRAITS, SchedulerBackend, SchedulerTraits
from scheduling.backends.kai import KAI
from scheduling.backends.kubernetes import KUBERNETES
from scheduling.backends.kueue import KUEUE
from scheduling.errors import Conflict, NotFound
from scheduling.nodes.devices import DeviceRule

GROUP = "osmo_topology.scheduler_backends"

BUILT_IN = (KAI, KUBERNETES, KUEUE, DEFAULT)


def collect(points: Iterable[EntryPoint]) -> Mapping[str, SchedulerBackend]:
    """All backends by name. Raises Conflict for two of one name."""
    backends = {backend.name: backend for backend in BUILT_IN}
    for point in points:
        backend: SchedulerBackend = point.load()
        if point.name in backends or backend.name != point.name:
            raise Conflict(
                f'Entry point "{point.name}" ({point.value}) gives scheduler backend "{backend.name}"; a '
                "name is that of its entry point and belongs to one backend."
            )
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


def product_of(name: str) -> str:
    """The scheduler of this name as people know it; of one that is not installed, this name."""
    backend = installed().get(name)
    return (backend and backend.product) or name


def traits_of(name: str) -> SchedulerTraits:
    """The traits of the scheduler of this name; of one that is not installed, none."""
    backend = installed().get(name)
    return backend.traits if backend else NO_TRAITS


def device_rule(name: str, *, problem: str) -> DeviceRule:
    """How the scheduler of this name counts the devices of a cluster with this problem."""
    traits = traits_of(name)
    return DeviceRule(traits.gives_devices, traits.shuns_drivers, problem)


def owns_topologies(name: str) -> bool:
    """Whether the service makes this scheduler's topology objects."""
    backend = installed().get(name)
    return backend is not None and backend.owns_topologies


def joins_queues(name: str) -> bool:
    """Whether this scheduler's gangs join queues of somebody else's."""
    backend = installed().get(name)
    return backend is not None and backend.joined_queues is not None


def is_read_label(key: str) -> bool:
    """Whether some scheduler reads the label of this key on pods."""
    return any(backend.reads_label(key) for backend in installed().values())


def is_read_annotation(key: str) -> bool:
    """Whether some scheduler reads the annotation of this key on pods."""
    return any(backend.reads_annotation(key) for backend in installed().values())
