"""The workflow that is selected on a map, as values: its groups, their placed and waiting sets. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pages.map.tree import Chosen, Mark, PlacePath
from pages.nearest_domains import NearestDomain
from pages.short_names import ShortName


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedSetView:
    """One set that has tasks on nodes. ``domains`` are theirs, with the number of tasks in each."""

    mark: Mark
    words: str
    tasks: int
    outcome: str
    tone: str
    required: bool
    domains: tuple[tuple[ShortName, int], ...]
    more: int
    outside: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingSetView:
    """One set that waits, and the domains that lack the least room for it."""

    words: str
    tasks: int
    key: str
    domains: int
    fit_now: int
    nearest: tuple[NearestDomain, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapGroup:
    """A group of the workflow; ``drawn`` names its waiting set that the picture shows, empty for none."""

    name: str
    status: str
    reason: str = ""
    placed: tuple[PlacedSetView, ...] = ()
    more_sets: int = 0
    answer: str = ""
    sentence: str = ""
    waiting: tuple[WaitingSetView, ...] = ()
    drawn: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapWorkflow:
    """The selected workflow. ``marks`` are its tasks by node and narrowest set."""

    name: str
    status: str
    pool: str
    groups: tuple[MapGroup, ...] = ()
    more_groups: int = 0
    marks: Mapping[str, tuple[Mark, ...]] = field(default_factory=dict, repr=False)
    domains: Mapping[tuple[int, PlacePath], Chosen] = field(default_factory=dict, repr=False)

    def in_domain(self, rank: int, path: PlacePath) -> Chosen:
        """Its tasks in a domain of the map; its scheduler may know domains by their value alone."""
        by_path = self.domains.get((rank, path), Chosen())
        by_value = self.domains.get((rank, path[-1:]), Chosen())
        return Chosen(sets=by_path.sets, room=by_path.room or by_value.room)
