"""The gangs that this process rendered last, for the reconciles of the same gangs that follow.

When a task of a gang ends, the gang's pod group is edited, which needs the gang as it was rendered. To render
a thousand tasks for each of a thousand ends costs more than all else in these reconciles.

A kept gang counts while what it was rendered from is equal: the values in ``GangSource``, and rows of tries,
of which only columns are read that never change. A new try is a row of its own, so ``GangSource`` names the
latest try of each task. Nothing has to tell that a gang is out of date.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

from scheduling.backends.base import RenderedGang
from scheduling.gang.gang_form import GangForm
from web.recent_values import RecentValues
from workflows.values.placement import GroupPlacement

Gangs = Mapping[int, RenderedGang]

MOST_TASKS = 10_000
"""Of all gangs that are kept: for a thousand tasks of one set 0.1 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GangSource:
    """What a group's gangs are rendered from that may change; ``tries`` are the keys of the latest ones."""

    placement: GroupPlacement
    attempt_number: int
    generation: int
    form: GangForm
    tries: tuple[int, ...]


rendered_gangs: RecentValues[Gangs] = RecentValues(most_parts=MOST_TASKS)


def gangs_of(group: UUID, source: GangSource, *, render: Callable[[], Gangs]) -> Gangs:
    """The gangs of each generation of a group, rendered unless they were from the same source."""
    gangs = rendered_gangs.find(group, version=source)
    if gangs is None:
        gangs = render()
        rendered_gangs.keep(group, gangs, version=source, parts=len(source.tries))
    return gangs
