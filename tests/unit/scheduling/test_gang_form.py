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


def test_what_a_form_does_not_say_is_as_its_user_wrote_it():
    assert GangForm.from_json({"stage": 1}) == GangForm(stage=1)


def test_a_form_that_uses_what_only_a_later_release_knows_is_refused_by_its_name():
    with pytest.raises(ValueError, match="form with of_tomorrow, which this release does not know"):
        GangForm.from_json({**USUAL_FORM.to_json(), "of_tomorrow": True})
