"""The facts about running work that pools must know, and nothing more.

``pools`` never imports ``workflows``: the composition root hands it an object that answers these questions.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from pools.models import Pool
from scheduling.topology.levels import DomainPath, Levels


@dataclass(frozen=True, slots=True)
class Unreleased:
    """Workflows, and their task groups, that may still have objects in a cluster.

    ``accepted`` lists what they were accepted with: each backend's name with each list of levels.
    """

    workflows: int = 0
    groups: int = 0
    accepted: tuple[tuple[str, Levels], ...] = ()


@dataclass(frozen=True, slots=True)
class ObservedComputeDomain:
    """A ComputeDomain as last observed. ``status`` is its controller's word, "Deleting" during its deletion.

    ``ready`` of its ``nodes`` have joined it; ``since`` is when its group's objects were created, None until
    all are there.
    """

    group: str
    workflow: str
    name: str
    status: str
    ready: int
    nodes: int
    since: datetime | None


@dataclass(frozen=True, slots=True)
class Room:
    """What nodes have and what of it is free.

    A free node takes work and holds nothing; in a pool with GPUs only nodes with GPUs are counted so. Free
    GPUs are those of nodes that take work.
    """

    free_nodes: int = 0
    gpus: int = 0
    free_gpus: int = 0
    uncounted_nodes: int = 0
    """How many nodes offer GPUs that are not counted."""

    def __add__(self, other: "Room") -> "Room":
        return Room(
            self.free_nodes + other.free_nodes,
            self.gpus + other.gpus,
            self.free_gpus + other.free_gpus,
            self.uncounted_nodes + other.uncounted_nodes,
        )


@dataclass(frozen=True, slots=True)
class ComputeDomains:
    """The number of ComputeDomains, and the newest of them."""

    count: int = 0
    newest: tuple[ObservedComputeDomain, ...] = ()


class PoolUsage(Protocol):
    """Answers about workflows; read inside the transaction that depends on them."""

    def live_workflows(self, pool_name: str) -> int:
        """Workflows submitted to the pool that have not ended."""

    def unreleased_in_pool(self, pool_name: str) -> Unreleased:
        """The work accepted into the pool and not released: it keeps its accepted configuration."""

    def living_by_pool(self) -> Mapping[str, int]:
        """Workflows that have not ended, for every pool that has any, by its name."""

    def compute_domains(self, pool_name: str, *, most: int) -> ComputeDomains:
        """ComputeDomains of the pool's groups in a cluster; at most ``most`` of them are described."""

    def room(self, pool: Pool) -> Mapping[DomainPath, Room]:
        """The room on a pool's nodes by its keys' domains; the pool came with its keys and platforms."""

    def unreleased_groups(self, backend_id: int) -> int:
        """Task groups frozen to the backend that may still have objects in its cluster."""

    def needed_topologies(self, cluster_uid: str) -> AbstractSet[tuple[str, tuple[str, ...]]]:
        """Each Topology of ours that an unreleased group's constraints name.

        By the name of its scheduler backend and its labels, broadest first.
        """

    def needed_queues(self, cluster_uid: str) -> AbstractSet[str]:
        """The queues that unreleased groups name; a queue outlives its pool until they are released."""

    def needed_priority_classes(self, cluster_uid: str) -> AbstractSet[str]:
        """The PriorityClasses that unreleased groups name."""

    def news_problems(self, pool_names: Sequence[str]) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """What failed lately of the news to each pool's own targets, the newest first."""

    def notify_backend(self, backend_id: int) -> None:
        """Enqueue the backend's groups: its cluster answers, or its configuration changed."""


_usage: PoolUsage | None = None


def usage() -> PoolUsage:
    """Raises RuntimeError until somebody answers: "nothing runs" would let what running work needs go."""
    if _usage is None:
        raise RuntimeError("nobody answers yet for running work")
    return _usage


def fill(usage: PoolUsage) -> PoolUsage | None:
    """Answer from ``usage`` from now on; called when the apps are ready. Returns the previous object."""
    global _usage
    before, _usage = _usage, usage
    return before
