"""The form of a gang as JSON."""

import pytest

from scheduling.gang.gang_form import USUAL_FORM, GangForm
from scheduling.gang.pins import Pin
from scheduling.gang.set_order import PartsOrder

RACK = (("rack", "r"),)
FORM = GangForm(stage=2, preference_levels=0, order=(PartsOrder((), (RACK, ())),), pins=(Pin(RACK, ("a",)),))


@pytest.mark.parametrize("form", [USUAL_FORM, FORM])
def test_a_form_is_read_back_from_its_json(form):
    assert GangForm.from_json(form.to_json()) == form


@pytest.mark.parametrize("value", [{"stage": 1}, {**USUAL_FORM.to_json(), "of_tomorrow": True}])
def test_a_form_of_another_release_is_refused_by_its_names(value):
    with pytest.raises(ValueError, match="A form has order, pins, preference_levels, stage, and not "):
        GangForm.from_json(value)
