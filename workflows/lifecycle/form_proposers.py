"""The form that a waiting gang takes next: a pure decision on what was observed of it.

``services.orders`` seeks a place in another form, and patience goes by time alone. Each proposer says whether
one part of the form changes now, and why; the first that says so decides. Pins and another order are begun
only while no pod has a node or is about to get one. An easing is decided by its time and what was sought:
whether the pod group may still be edited is seen at the edit, and a gang that is created anew starts eased.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from scheduling.gang import set_order
from scheduling.gang.gang_form import GangForm
from workflows.lifecycle import patience
from workflows.lifecycle.form_states import FormState
from workflows.lifecycle.patience import ConstraintRow, PatienceAction, PatienceFacts
from workflows.lifecycle.pin_words import PINNED, UNPINNED, pins_message, unpinned_message

REORDERED = "SetsReordered"
"""Reason of the event that a waiting gang is named in another order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormFacts:
    """The observations of a group."""

    group: str
    now: datetime
    form: GangForm
    constraints: Sequence[ConstraintRow]

    proposed: GangForm | None
    """A form in which it would be placed."""

    waits: bool
    """Whether every task waits for a node, be it tried again or not."""

    is_intact: bool
    """Whether every task is at its first try and has its pod, none being deleted."""

    is_bound: bool
    """Whether a pod has or had a node."""

    patience: PatienceFacts | None
    """None without any."""


@dataclass(frozen=True, slots=True)
class FormProposal:
    """A form to take, and the event about it.

    ``behind`` is the part of it in which objects are as before, if their edit has to be finished once it is
    begun. ``message`` is of the constraints in this form; without one there is no event.
    """

    form: GangForm
    behind: FormState
    key: str
    reason: str
    message: Callable[[Sequence[ConstraintRow]], str]


def pins(facts: FormFacts) -> FormProposal | None:
    """The pins that were proposed."""
    if facts.proposed is None or facts.proposed.pins == facts.form.pins:
        return None
    form, group = replace(facts.form, pins=facts.proposed.pins), facts.group
    message = pins_message(form.pins, group=group) if form.pins else unpinned_message(group=group)
    reason = PINNED if form.pins else UNPINNED
    return FormProposal(form, FormState.PINS, _key("pins", facts), reason, lambda _: message)


def order(facts: FormFacts) -> FormProposal | None:
    """The order that was proposed, once all pods are there."""
    form = facts.proposed
    if form is None or not facts.is_intact or not _is_order(form, facts):
        return None
    words = set_order.sentence(form.order) or "the usual one"
    message = (
        f'Group "{facts.group}" found no place in the order of its sets, and there is room now in another '
        f"one. They are placed in this order from now on: {words}."
    )
    return FormProposal(form, FormState.ORDER, _key("order", facts), "SetsOrdered", lambda _: message)


def easing(facts: FormFacts) -> FormProposal | None:
    """The next stage, once it is due, or else what was proposed for preferences that block the gang."""
    form, proposed, group = facts.form, facts.proposed, facts.group
    if facts.patience is None:
        return None
    step = patience.next_step(facts.patience)
    if step.action == PatienceAction.RELAX:
        form, key = replace(form, stage=step.stage), f"relaxed:{step.stage}"
        message = partial(patience.relaxation_message, facts.constraints, group=group)
        return FormProposal(form, FormState.REACHED, key, "Relaxed", message)
    may_give_way = step.action == PatienceAction.WAIT and patience.may_give_way(facts.patience)
    if not may_give_way or proposed is None or proposed.preference_levels == form.preference_levels:
        return None
    form, key = replace(form, preference_levels=proposed.preference_levels), _key("preferences", facts)
    if form.preference_levels is not None:
        message = partial(patience.gave_way_message, group=group)
        return FormProposal(form, FormState.REACHED, key, patience.GAVE_WAY, message)
    returned = patience.returned_message(facts.constraints, group=group)
    return FormProposal(form, FormState.REACHED, key, patience.RETURNED, lambda _: returned)


def _is_order(form: GangForm, facts: FormFacts) -> bool:
    """Whether it is the present form but for the order."""
    return form == replace(facts.form, order=form.order)


def _key(part: str, facts: FormFacts) -> str:
    return f"{part}:{facts.now.isoformat()}"


PROPOSERS: tuple[Callable[[FormFacts], FormProposal | None], ...] = (pins, order, easing)


def next_form(facts: FormFacts) -> FormProposal | None:
    """The form to take now."""
    return next(filter(None, (propose(facts) for propose in PROPOSERS)), None)


def is_stale(facts: FormFacts) -> bool:
    """Whether what was proposed to the group can no longer be taken.

    The proposal of an easing is dropped with the clock of patience.
    """
    form = facts.proposed
    if form is None:
        return False
    if form.pins != facts.form.pins:
        return not facts.waits
    return _is_order(form, facts) and (facts.is_bound or form == facts.form)
