"""Segments against the rest of a task's topology: they are cut inside it, the narrower inside the broader.

A set's identity is its path from the broadest key (``scheduling.topology.requirements``). A segment broader
than another key of the same tasks would cut that key's sets as well, without a word.
"""

from collections.abc import Iterator, Sequence

from scheduling.errors import Fault
from scheduling.topology.levels import Level, ranks
from scheduling.topology.requirements import Gang, Requirement


def segment_faults(gang: Gang, levels: Sequence[Level]) -> Iterator[Fault]:
    """A fault for each segment that is broader than what stands above it in its resource or list.

    That a key is unknown, stands twice, or is against its task group's topology is found with all others
    (``scheduling.gang.soundness``).
    """
    rank = ranks(levels)
    reported = set()
    for requirements in {id(task.requirements): task.requirements for task in gang.tasks}.values():
        above: Requirement | None = None
        for requirement in sorted(requirements, key=_is_segment):
            if requirement.key not in rank:
                continue
            if above and _is_segment(requirement) and rank[requirement.key] < rank[above.key]:
                path = (*requirement.path, "key")
                narrower = tuple(level.key for level in levels[rank[above.key] + 1 :])
                keys = f"Narrower keys: {', '.join(narrower)}." if narrower else "The pool has none."
                message = (
                    f"A segment is cut inside the topology above it, so its key must be narrower than "
                    f'"{above.key}", and "{requirement.key}" is broader. {keys}'
                )
                if path not in reported:
                    reported.add(path)
                    yield Fault(path, "segment", message, allowed=narrower)
            if above is None or rank[requirement.key] > rank[above.key]:
                above = requirement


def _is_segment(requirement: Requirement) -> bool:
    return "segment" in requirement.path[-2:]
