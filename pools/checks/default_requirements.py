"""The rules for the default topology of a pool and its platforms. Pure.

They are those of a user's own requirements: the same check runs on a group that has nothing else. So a key
that the pool lacks is refused where the default names it, also when it is the key that goes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import lcm

from pools.documents.default_topology import DefaultTopologyDocument, value_of
from pools.documents.pool import PoolDocument
from scheduling.capabilities import Capabilities, Capability, lacking
from scheduling.errors import Fault, Path
from scheduling.gang.checks import PreferenceWord, check_gang
from scheduling.gang.soundness import check_requirements
from scheduling.topology.defaults import LEAST_TASKS, DefaultTopology
from scheduling.topology.levels import Levels
from scheduling.topology.requirements import Gang, GangTask, effective
from scheduling.topology.segments import Segments, segment_faults

FIELD = "default_topology"

FORMS = (
    "{pack: true}",
    "{topology: [{key: rack, requirementType: preferred}]}",
    "{segment: {size: 18, key: rack}}",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolDefaults:
    """The defaults of a saved pool and its platforms, and what else says whether a scheduler holds them."""

    defaults: tuple[DefaultTopology, ...]
    levels: Levels
    unsupported_preferred: PreferenceWord


def check_default_forms(document: PoolDocument) -> Iterator[Fault]:
    """Find what is wrong with the defaults of a pool and its platforms, whatever the scheduler."""
    for path, written in _defaults(document):
        default = value_of(written)
        if written.pack and (written.topology or written.segment):
            message = "A packed default has no topology and no segment: leave one out (null resets it)."
            yield Fault(path, "both_forms", message, allowed=FORMS)
        elif not default and not (written.is_none and len(path) > 1):
            message = "It says nothing: leave it out (null resets it), or write pack, topology or segment."
            yield Fault(path, "empty", message, allowed=FORMS)
        tasks = {"task": lcm(*(level.size for level in default.segments))}
        yield from Segments(default.segments, tasks, path).faults()
        group = _group(default, document.levels, path)
        unsound = check_requirements(group, document.levels)
        yield from unsound or segment_faults(effective(group), document.levels)


def check_default_capabilities(document: PoolDocument, *, capabilities: Capabilities) -> list[Fault]:
    """Find what the pool's scheduler cannot hold of the defaults of a pool and its platforms."""
    return [
        fault
        for path, written in _defaults(document)
        for fault in unheld(
            value_of(written),
            document.levels,
            capabilities=capabilities,
            unsupported_preferred=document.unsupported_preferred,
            path=path,
        )
    ]


def unheld(
    default: DefaultTopology,
    levels: Levels,
    *,
    capabilities: Capabilities,
    unsupported_preferred: PreferenceWord,
    path: Path,
) -> list[Fault]:
    """The faults of a default at ``path`` which a scheduler cannot hold; those of its text are left out."""
    group = _group(default, levels, path)
    faults, _, _ = check_gang(
        group,
        levels,
        capabilities=capabilities,
        domains=None,
        unsupported_preferred=unsupported_preferred,
    )
    unsound = check_requirements(group, levels)
    lacks = [fault for fault in faults if fault not in unsound]
    if not default.pack:
        return lacks
    if Capability.TOPOLOGY_PREFERRED not in capabilities and unsupported_preferred == "refuse":
        because = "A packed group prefers one domain of each key."
        return [lacking(Capability.TOPOLOGY_PREFERRED, capabilities, path=(*path, "pack"), because=because)]
    return [replace(fault, path=(*path, "pack")) for fault in lacks[:1]]


def check_scheduler_holds_defaults(
    pools: Mapping[str, PoolDefaults], *, capabilities: Capabilities, path: Path
) -> list[Fault]:
    """Find the pools of a backend whose default topology its new scheduler could not hold."""
    faults = []
    for name, pool in sorted(pools.items()):
        lacks = (
            fault
            for default in pool.defaults
            for fault in unheld(
                default,
                pool.levels,
                capabilities=capabilities,
                unsupported_preferred=pool.unsupported_preferred,
                path=path,
            )
        )
        if fault := next(lacks, None):
            message = f'Pool "{name}" of this backend has a default topology. {fault.message}'
            faults.append(replace(fault, path=path, message=message))
    return faults


def _defaults(document: PoolDocument) -> Iterator[tuple[Path, DefaultTopologyDocument]]:
    """Every default of a pool, with its place; the pool's own first."""
    if document.default_topology is not None:
        yield (FIELD,), document.default_topology
    for name, platform in document.platforms.items():
        if platform.default_topology is not None:
            yield ("platforms", name, FIELD), platform.default_topology


def _group(default: DefaultTopology, levels: Levels, path: Path) -> Gang:
    """The smallest group that shows all of a default, with ``path`` as its place.

    Segments hold two of the next narrower, or two tasks, and there are two of the broadest.
    """
    default = default.in_pool(levels)
    count = LEAST_TASKS * 2 ** len(default.segments)
    scaled = [replace(level, size=count >> depth) for depth, level in enumerate(default.segments, 1)]
    segments = Segments(scaled, {"task": count}, path)
    tasks = tuple(
        GangTask(f"task {place}", gpus=1, path=path, requirements=segments.requirements(place))
        for place in range(count)
    )
    return Gang(FIELD, tasks, path, default.topology)
