"""OSMO's exit actions: what follows from the exit code of a task.

A task's own actions come first, then its pool's. Codes above 255 are the service's own (301 to 4000), so an
action may also name an eviction. RESTART_GROUP is ours: the whole group is tried again. Pure but for the
names.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum

from pools.values.exit_codes import read_range


class ExitAction(StrEnum):
    COMPLETE = "COMPLETE"
    FAIL = "FAIL"
    RESCHEDULE = "RESCHEDULE"
    RESTART_GROUP = "RESTART_GROUP"


def exit_action(code: int, *sources: Mapping[str, str]) -> ExitAction | None:
    """The action for an exit code in the first source that names it; None if none does."""
    for source in sources:
        for action in ExitAction:
            if any(low <= code <= high for low, high in _ranges(source.get(action, ""))):
                return action
    return None


def _ranges(text: str) -> Iterator[tuple[int, int]]:
    """The ranges of ``1-3,7``; a malformed part has none, since a submission refuses it."""
    for part in text.split(","):
        if bounds := read_range(part):
            yield bounds
