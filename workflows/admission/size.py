"""The size of a workflow's rows and pods, measured before any of them is made.

A document of a few hundred kilobytes may stand for gigabytes: the resource specs and the pool's pod templates
are repeated in the row and in the pod of every task. So the sum is taken over the frozen values, in which
tasks share objects that are measured once, and a workflow over the limit is refused before anything is
rendered or written. Rejected: measuring the rendered objects, because rendering is what costs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from operator import attrgetter
from typing import Any

from scheduling.errors import Fault
from workflows.values.placement import GroupValues

MOST = 128 * 2**20
"""Characters of all tasks together, their pool's templates included."""


def oversized_workflow(groups: Iterable[GroupValues], *, most: int = MOST) -> Iterator[Fault]:
    """One fault, if the tasks of a workflow have more than ``most`` characters together."""
    total, weights = 0, dict[int, int]()
    for group in groups:
        for task in group.tasks:
            template = group.placement.templates.get(task.placement.platform)
            total += _weight(task.placement, weights) + (_weight(template, weights) if template else 0)
            if total > most:
                message = (
                    f"The tasks have more than {most} characters together; resource specs and the pool's "
                    "templates count once per task. Divide the workflow, or put shared files into the image."
                )
                yield Fault(("workflow",), "workflow_too_large", message, allowed=(str(most),))
                return


def _weight(value: Any, weights: dict[int, int]) -> int:
    """Characters of texts, and 1 for any other value; ``weights`` are those of containers by identity."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, int):
        return 1
    if (weight := weights.get(id(value))) is not None:
        return weight
    parts = _parts(value)
    if parts is None:
        return 1
    weight = 1
    for part in parts:  # most are texts, numbers and empty containers
        if isinstance(part, str):
            weight += len(part)
        else:
            weight += _weight(part, weights) if part and not isinstance(part, int) else 1
    weights[id(value)] = weight
    return weight


def _parts(value: Any) -> Iterable[Any] | None:
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, (dict, Mapping)):  # nearly always the first, and asking for the second is slow
        return chain(value, value.values())
    names = getattr(value, "__dataclass_fields__", None)  # ``fields`` looks at each of them again
    return _reader(tuple(names))(value) if names else None


@cache
def _reader(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """What reads these attributes at once; each class that is frozen has its own."""
    read = attrgetter(*names)
    return read if len(names) > 1 else lambda value: (read(value),)
