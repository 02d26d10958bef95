"""How far a group's objects are on the way to its form (``scheduling.gang.gang_form``)."""

from django.db import models


class FormState(models.TextChoices):
    """The parts of a form in which a group's objects may still be as before.

    ``PINS_AND_ORDER`` is of a group whose database was put back: its pins are compared first. While pods may
    have the pins of before, the row's other form is the one of before; else it is one that is proposed.
    """

    REACHED = "", "reached"
    ORDER = "order"
    PINS = "pins"
    PINS_AND_ORDER = "pins_and_order"


OTHER_PINS = (FormState.PINS, FormState.PINS_AND_ORDER)
OTHER_ORDER = (FormState.ORDER, FormState.PINS_AND_ORDER)
