"""Condition ``SchedulerDisagrees``: a gang fits, and its scheduler leaves it waiting. Pure.

``Unknown`` while a gang fits and its scheduler still has time, ``True`` once that is over, ``False`` when it
was placed or it is not certain any more. Of a backend it says how many of its gangs are left so.
"""

from dataclasses import replace
from datetime import datetime
from typing import Final

from pools.conditions import Condition
from scheduling.sentences import agree, count_of
from workflows.explain.reasons import Reason, Why

DISAGREES: Final = "SchedulerDisagrees"

JUDGED: Final = (
    Why.TOPOLOGY,
    Why.CAPACITY,
    Why.NODES,
    Why.SCHEDULER,
    Why.SILENT,
    Why.QUOTA,
    Why.DISAGREES,
)
"""Reasons of gangs that wait for nothing but their scheduler's decision."""


def fits() -> Condition:
    message = "It fits, and its scheduler has time to place it."
    return Condition(type=DISAGREES, status="Unknown", reason="Fits", message=message)


def not_placed(since: datetime) -> Condition:
    message = (
        f"It has fitted since {since:%Y-%m-%d %H:%M:%S} UTC and nothing goes before it, but its scheduler "
        "has not placed it."
    )
    return Condition(type=DISAGREES, status="True", reason="NotPlaced", message=message)


def over() -> Condition:
    message = "It was placed, or it is not certain any more that it fits."
    return Condition(type=DISAGREES, status="False", reason="Over", message=message)


def of_backend(groups: int) -> Condition:
    """How many gangs of a backend its scheduler leaves waiting."""
    if not groups:
        message = "No task group is known that certainly fits and is not placed."
        return Condition(type=DISAGREES, status="False", reason="Over", message=message)
    verbs = agree(groups, "fits and is", "fit and are")
    message = f"{count_of(groups, 'task group')} {verbs} not placed."
    return Condition(type=DISAGREES, status="True", reason="NotPlaced", message=message)


def beside(reason: Reason, message: str) -> Reason:
    """The reason of a gang that is left waiting, with the one that it had behind it."""
    text = f"{message} Otherwise it would say: {reason.sentence}"
    return replace(reason, why=Why.DISAGREES, sentence=text)
