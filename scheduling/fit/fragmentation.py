"""How a pool's free nodes are spread: slots of 1, 2, 4, 8, ... nodes per level.

A slot of n nodes is n wholly free, open nodes in one domain; a domain with 11 of them has two slots of 4 and
one of 8. Free nodes in domains too small for a slot are what fragmentation costs a gang of that size.

Where some nodes have GPUs, only those nodes count: the others hold no gang that asks for a GPU.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scheduling.fit.snapshot import FitNode, Snapshot

_GPU = 0


@dataclass(frozen=True, slots=True)
class LevelSlots:
    """One level: ``slots[n]`` is how many groups of n free nodes fit at once, each in one domain.

    Sizes are powers of two up to the largest domain.

    ``largest`` is the most free nodes of one domain, ``domain`` its path; ``free`` counts free nodes that
    carry the label, ``unlabelled`` those that do not.
    """

    key: str
    label: str
    domains: int
    free: int
    unlabelled: int
    slots: dict[int, int]
    largest: int
    domain: tuple[str, ...]


def free_nodes(nodes: Sequence[FitNode], *, among: Sequence[FitNode]) -> list[bool]:
    """For each of these nodes, whether it counts as wholly free among a pool's nodes."""
    with_gpus = any(node.allocatable[_GPU] for node in among)
    return [_is_free(node, with_gpus=with_gpus) for node in nodes]


def fragmentation(snapshot: Snapshot) -> tuple[LevelSlots, ...]:
    """Count slots for every level, broadest first."""
    free_flags = free_nodes(snapshot.nodes, among=snapshot.nodes)
    return tuple(_level(snapshot, rank, free_flags) for rank in range(len(snapshot.levels)))


def _level(snapshot: Snapshot, rank: int, free_flags: list[bool]) -> LevelSlots:
    row = snapshot.domains[rank]
    free = {domain.path: sum(free_flags[at] for at in domain.nodes) for domain in row}
    biggest = max((len(domain.nodes) for domain in row), default=0)
    best = min(free, key=lambda path: (-free[path], path), default=())
    return LevelSlots(
        key=snapshot.levels[rank].key,
        label=snapshot.levels[rank].label,
        domains=len(row),
        free=sum(free.values()),
        unlabelled=sum(free_flags) - sum(free.values()),
        slots={size: sum(count // size for count in free.values()) for size in _sizes(biggest)},
        largest=free.get(best, 0),
        domain=best,
    )


def _sizes(most: int) -> Iterator[int]:
    size = 1
    while size <= most:
        yield size
        size *= 2


def _is_free(node: FitNode, *, with_gpus: bool) -> bool:
    """Whether a node is open and all its GPUs are free; where none has GPUs, whether nothing runs there."""
    if node.closed:
        return False
    if with_gpus:
        return 0 < node.allocatable[_GPU] == node.free_of(_GPU)
    return not node.holdings
