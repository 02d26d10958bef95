"""What a user wrote about where tasks must or should sit together."""

from dataclasses import dataclass

from scheduling.errors import Path


@dataclass(frozen=True, slots=True)
class Requirement:
    """Tasks of one task group that name the same key and group share one domain of that key.

    ``path`` is where it stands in the user's document (``("workflow", "resources", "shard",
    "topology", 1)``).
    """

    key: str
    group: str = "default"
    required: bool = True
    path: Path = ()


@dataclass(frozen=True, slots=True)
class GangTask:
    """A task as the core sees it. ``gpus`` counts whole GPUs.

    ``path`` is where the task stands in the user's document.
    """

    name: str
    gpus: int = 0
    requirements: tuple[Requirement, ...] = ()
    path: Path = ()


@dataclass(frozen=True, slots=True)
class Gang:
    """The tasks of one task group: scheduled together or not at all."""

    name: str
    tasks: tuple[GangTask, ...]
    path: Path = ()
