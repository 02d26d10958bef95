"""The workflow that is selected on a map, as values: its groups, their placed and waiting sets. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pages.map.tree import NOTHING_CHOSEN, Chosen, Mark, PlacePath
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
class MapSelection:
    """What a map marks. ``marks`` are tasks by node and narrowest set, ``domains`` by rank and path."""

    marks: Mapping[str, tuple[Mark, ...]] = field(default_factory=dict, repr=False)
    domains: Mapping[tuple[int, PlacePath], Chosen] = field(default_factory=dict, repr=False)

    def in_domain(self, rank: int, path: PlacePath) -> Chosen:
        """The tasks in a domain of the map; a scheduler may know domains by their value alone."""
        by_path = self.domains.get((rank, path), NOTHING_CHOSEN)
        by_value = self.domains.get((rank, path[-1:]), NOTHING_CHOSEN)
        return Chosen(sets=by_path.sets, room=by_path.room or by_value.room)


NOTHING_SELECTED = MapSelection()


@dataclass(frozen=True, slots=True, kw_only=True)
class MapWorkflow(MapSelection):
    """The selected workflow."""

    name: str
    status: str
    pool: str
    groups: tuple[MapGroup, ...] = ()
    more_groups: int = 0
