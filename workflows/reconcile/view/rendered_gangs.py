"""The gangs that this process rendered last, for the reconciles of the same gangs that follow.

When a task of a gang ends, the gang's pod group is edited, which needs the gang as it was rendered. To render
a thousand tasks for each of a thousand ends costs more than all else in these reconciles.

A kept gang counts while what it was rendered from is equal: the values in ``GangSource``, and rows of tries,
of which only columns are read that never change. A new try is a row of its own, so ``GangSource`` names the
latest try of each task. Nothing has to tell that a gang is out of date. Those used longest ago are dropped.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from scheduling.backends.base import RenderedGang
from workflows.values.placement import GroupPlacement

Gangs = Mapping[int, RenderedGang]

MOST_GANGS = 64
MOST_TASKS = 10_000
"""Of all gangs that are kept: for a thousand tasks of one set 0.1 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GangSource:
    """What a group's gangs are rendered from that may change; ``tries`` are the keys of the latest ones."""

    placement: GroupPlacement
    attempt_number: int
    generation: int
    stage: int
    preference_levels: int | None
    set_order: Any
    pins: Any
    tries: tuple[int, ...]


class RenderedGangs:
    """Gangs of each generation by group. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: OrderedDict[UUID, tuple[GangSource, Gangs]] = OrderedDict()

    def get(self, group: UUID, source: GangSource, *, render: Callable[[], Gangs]) -> Gangs:
        """The gangs of a group, rendered unless they were from the same source."""
        with self._lock:
            before, gangs = self._entries.get(group, (None, {}))
            if before == source:
                self._entries.move_to_end(group)
                return gangs
        gangs = render()
        with self._lock:
            self._entries[group] = (source, gangs)
            self._entries.move_to_end(group)
            while len(self._entries) > MOST_GANGS or (len(self._entries) > 1 and self._tasks() > MOST_TASKS):
                self._entries.popitem(last=False)
        return gangs

    def _tasks(self) -> int:
        return sum(len(source.tries) for source, _ in self._entries.values())


RENDERED_GANGS = RenderedGangs()
