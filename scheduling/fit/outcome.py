"""The placement of a gang, compared with its requirements.

MATCH: every set stands in one domain of every level it names. DEGRADED: a preferred level was missed.
VIOLATION: a required level does not hold. No scheduler should do that; it happens when node labels change
under running tasks, or when somebody binds a pod by hand.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from scheduling.gang.tree import ConstraintTree
from scheduling.topology.levels import DomainPath, Level, has_domain
from scheduling.topology.requirements import SetPath


class PlacementOutcome(StrEnum):
    MATCH = "match"
    DEGRADED = "degraded"
    VIOLATION = "violation"

    @property
    def words(self) -> str:
        """The outcome as pages, maps and sentences say it."""
        return _WORDS[self]


_WORDS = {
    PlacementOutcome.MATCH: "as asked",
    PlacementOutcome.DEGRADED: "preference missed",
    PlacementOutcome.VIOLATION: "requirement missed",
}


@dataclass(frozen=True, slots=True)
class SetOutcome:
    """One set at one level. ``domains`` are those it stands in, by path (or value), with tasks in each.

    A task on a node that lacks the label stands in no domain and is counted in ``outside``.
    """

    path: SetPath
    level: str
    required: bool
    outcome: PlacementOutcome
    domains: Mapping[tuple[str, ...], int]
    outside: int = 0


def outcomes(
    tree: ConstraintTree, places: Mapping[str, DomainPath], *, paths: bool
) -> tuple[SetOutcome, ...]:
    """Judge every requirement of a gang whose tasks all have a node.

    ``places`` gives the place of each task's node (``levels.domain_of``); a task whose node is unknown is
    left out of the count. One entry for each requirement of each set, in tree order, broader levels first.
    """
    set_outcomes = []
    for node in tree.root.walk():
        set_places = [places[task.name] for task in node.all_tasks() if task.name in places]
        for member in sorted(node.members, key=lambda member: member.rank):
            domains, outside = _domains(set_places, member.rank, tree.levels[member.rank], paths=paths)
            missed = PlacementOutcome.VIOLATION if member.required else PlacementOutcome.DEGRADED
            outcome = missed if outside or len(domains) > 1 else PlacementOutcome.MATCH
            level = tree.levels[member.rank].key
            set_outcomes.append(SetOutcome(member.path, level, member.required, outcome, domains, outside))
    return tuple(set_outcomes)


def worst(set_outcomes: tuple[SetOutcome, ...]) -> PlacementOutcome:
    """The outcome of the gang: the outcome of its worst set."""
    order = (PlacementOutcome.MATCH, PlacementOutcome.DEGRADED, PlacementOutcome.VIOLATION)
    return max(
        (set_outcome.outcome for set_outcome in set_outcomes), key=order.index, default=PlacementOutcome.MATCH
    )


def _domains(
    places: list[DomainPath], rank: int, level: Level, *, paths: bool
) -> tuple[dict[tuple[str, ...], int], int]:
    counts: dict[tuple[str, ...], int] = {}
    outside = 0
    for place in places:
        values = place[: rank + 1] if paths else place[rank : rank + 1]
        if None in values or not has_domain(place[rank], level):
            outside += 1
            continue
        path = tuple(value for value in values if value is not None)
        counts[path] = counts.get(path, 0) + 1
    return dict(sorted(counts.items())), outside
