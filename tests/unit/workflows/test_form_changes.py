"""How changes of a group's form leave its row (``services.group_rows``)."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from scheduling.gang.gang_form import GangForm
from workflows.lifecycle.form_states import FormState
from workflows.models import TaskGroup
from workflows.services.changes import NewForm, OrderReached, PatienceClock, PinsSettled
from workflows.services.group_rows import write
from workflows.services.steps import Steps

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FORM = GangForm(stage=1)
EASED = replace(FORM, preference_levels=0)


def after(change, **columns):
    group = TaskGroup(form=FORM.to_json(), status="SCHEDULING", **columns)
    write(change, Steps(group, NOW, [change]))
    return group


@pytest.mark.parametrize(
    ("change", "before", "then"),
    [
        (PinsSettled(), FormState.PINS, FormState.REACHED),
        (PinsSettled(), FormState.PINS_AND_ORDER, FormState.ORDER),
        (OrderReached(), FormState.ORDER, FormState.REACHED),
        (OrderReached(), FormState.PINS_AND_ORDER, FormState.PINS),
        (NewForm(FORM, [], FormState.ORDER), FormState.REACHED, FormState.ORDER),
        (NewForm(FORM, [], FormState.PINS), FormState.PINS_AND_ORDER, FormState.PINS_AND_ORDER),
    ],
)
def test_each_part_of_a_form_is_brought_to_its_end_by_itself(change, before, then):
    assert after(change, form_state=before).form_state == then


def test_a_stage_is_never_taken_back():
    assert after(NewForm(replace(EASED, stage=0), [])).form == EASED.to_json()


def test_new_pins_remember_the_form_of_before():
    assert after(NewForm(EASED, [], FormState.PINS)).other_form == FORM.to_json()


@pytest.mark.parametrize(
    ("state", "other", "left"),
    [
        (FormState.REACHED, EASED.to_json(), None),
        (FormState.REACHED, FORM.to_json(), FORM.to_json()),
        (FormState.PINS, EASED.to_json(), EASED.to_json()),
    ],
)
def test_a_gang_that_waits_no_more_drops_a_proposed_easing_alone(state, other, left):
    assert after(PatienceClock(running=False), form_state=state, other_form=other).other_form == left
