"""The next step in bringing a group's sets into another order: a pure decision on what was observed.

Three kinds of objects change, so each step may be the last one of a worker: the decision in the row, which is
never taken back, then the pod group by its version, then the label of each pod. It is begun only while no pod
has a node or is about to get one. Once begun it is finished whatever is bound since, or a part of the gang
would name a sub-group that is gone.
"""

from dataclasses import dataclass
from enum import StrEnum

REORDERED = "SetsReordered"
"""Reason of the event that a waiting gang is named in another order."""


class OrderAction(StrEnum):
    """``BEGIN`` writes the order into the row; ``FINISH`` brings the objects to it; ``DROP`` forgets it."""

    NONE = "none"
    WAIT = "wait"
    DROP = "drop"
    BEGIN = "begin"
    FINISH = "finish"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderFacts:
    """The observations of a group.

    ``is_proposed``: an order is proposed, and ``differs`` from that in force. ``reordering``: one was begun.
    ``is_intact``: every task is at its first try and has its pod, none being deleted. ``is_bound``: a pod
    has or had a node.
    """

    is_proposed: bool
    differs: bool
    reordering: bool
    is_intact: bool
    is_bound: bool


def next_order_action(facts: OrderFacts) -> OrderAction:
    """The next action for a group's order."""
    if facts.reordering:
        return OrderAction.FINISH
    if not facts.is_proposed:
        return OrderAction.NONE
    if facts.is_bound or not facts.differs:
        return OrderAction.DROP
    return OrderAction.BEGIN if facts.is_intact else OrderAction.WAIT
