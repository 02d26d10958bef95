"""How much text a workflow becomes, known before any of it is made.

A document of a few hundred kilobytes may stand for gigabytes: what a resource says, and what the pool's pod
templates say, is said again in the row and in the pod of every task. So the sum is taken over the frozen
values, where what tasks share is one object and is measured once, and a workflow over the bound is refused
before anything is rendered or written. Rejected: measuring the rendered objects, which is the cost itself.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from scheduling.errors import Fault
from workflows.values.placement import GroupValues

MOST = 128 * 2**20
"""Characters of all tasks together, their pool's templates included."""


def too_heavy(groups: Iterable[GroupValues], *, most: int = MOST) -> Iterator[Fault]:
    """One fault, if the tasks of a workflow hold more text than ``most`` together."""
    total, known = 0, dict[int, int]()
    for group in groups:
        for task in group.tasks:
            template = group.placement.templates.get(task.placement.platform)
            total += _weight(task.placement, known) + (_weight(template, known) if template else 0)
            if total > most:
                said = (
                    f"Its tasks become more than {most} characters together, with what their resources and "
                    "the pool's templates repeat in each. Divide it, or put shared files into the image."
                )
                yield Fault(("workflow",), "workflow_too_large", said, allowed=(str(most),))
                return


def _weight(value: Any, known: dict[int, int]) -> int:
    """Characters, and one for everything else; ``known`` holds those of containers by identity."""
    if isinstance(value, str):
        return len(value)
    parts = _parts(value)
    if parts is None:
        return 1
    if id(value) not in known:
        known[id(value)] = 1 + sum(_weight(part, known) for part in parts)
    return known[id(value)]


def _parts(value: Any) -> Iterable[Any] | None:
    if isinstance(value, Mapping):
        return [part for entry in value.items() for part in entry]
    if is_dataclass(value):
        return [getattr(value, one.name) for one in fields(value)]
    return value if isinstance(value, (list, tuple)) else None
