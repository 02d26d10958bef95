"""The requirements that a group's placement met, as a page shows it. Pure.

Sets whose requirements are met are counted; the others have a line each, the worst first.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pages.workflows.labels import Badge
from scheduling.fit.outcome import PlacementOutcome
from scheduling.sentences import count_of, plain_listing
from scheduling.topology.requirements import describe
from workflows.feasibility.placement.placed import PlacedSet, PlacementResult

MOST_MISSED = 20
MOST_DOMAINS = 5

_BADGES = {
    outcome: Badge(outcome.value, outcome.words.capitalize(), symbol, tone)
    for outcome, symbol, tone in (
        (PlacementOutcome.MATCH, "✓", "good"),
        (PlacementOutcome.DEGRADED, "▲", "warn"),
        (PlacementOutcome.VIOLATION, "✕", "bad"),
    )
}
_WORST = (PlacementOutcome.VIOLATION, PlacementOutcome.DEGRADED)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPlacementView:
    """A set, or several whose requirement is met; ``where`` are the domains with the tasks in each."""

    requirement: str
    badge: Badge
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementView:
    """The placement of one group; ``more`` counts sets that missed a requirement and have no line."""

    group: str
    badge: Badge
    at: datetime
    sets: tuple[SetPlacementView, ...]
    more: int


def placement_view(group: str, result: PlacementResult) -> PlacementView:
    missed = [placed for placed in result.sets if placed.outcome is not PlacementOutcome.MATCH]
    missed.sort(key=lambda placed: _WORST.index(placed.outcome))
    met = [placed for placed in result.sets if placed.outcome is PlacementOutcome.MATCH]
    return PlacementView(
        group=group,
        badge=_BADGES[result.outcome],
        at=result.at,
        sets=(*map(_missed, missed[:MOST_MISSED]), *_met(met)),
        more=max(0, len(missed) - MOST_MISSED),
    )


def _met(sets: Sequence[PlacedSet]) -> list[SetPlacementView]:
    """Sets whose requirement is met, those of one key in one line."""
    lines = []
    for (key, required), number in Counter((placed.key, placed.required) for placed in sets).items():
        alike = (placed for placed in sets if (placed.key, placed.required) == (key, required))
        names = dict.fromkeys("/".join(path) for placed in alike for path, _ in placed.domains)
        requirement = f"One {key} {_kind(required=required)}"
        if number > 1:
            requirement += f", for each of {number} sets"
        where = _where(list(names), len(names))
        lines.append(
            SetPlacementView(requirement=requirement, badge=_BADGES[PlacementOutcome.MATCH], where=where)
        )
    return lines


def _missed(placed: PlacedSet) -> SetPlacementView:
    domains = [f"{'/'.join(path)} ({count_of(tasks, 'task')})" for path, tasks in placed.domains]
    where = _where(domains, placed.domain_count)
    if placed.outside:
        where += f"; {count_of(placed.outside, 'task')} on nodes without the label"
    return SetPlacementView(
        requirement=f"One {placed.key} {_kind(required=placed.required)}, for set {describe(placed.path)}",
        badge=_BADGES[placed.outcome],
        where=where,
    )


def _kind(*, required: bool) -> str:
    return "required" if required else "preferred"


def _where(domains: Sequence[str], number: int) -> str:
    return plain_listing(domains, limit=MOST_DOMAINS, total=number)
