"""The form of a gang: all that may change while it waits, without changing what its user wrote."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from scheduling.gang import pins, set_order
from scheduling.gang.pins import Pins
from scheduling.gang.set_order import SetOrder


@dataclass(frozen=True, slots=True)
class GangForm:
    """How far a gang's preferences are eased, in which order its sets are, and which of them are pinned.

    The form without arguments is the one that its user wrote.
    """

    stage: int = 0
    """How many preferences are relaxed by patience (``gang.stages``)."""

    preference_levels: int | None = None
    """How many levels preferences may still name (``gang.free_preferences``); None: all."""

    order: SetOrder = ()
    """Of its sets (``gang.set_order``), for a scheduler with the trait ``orders_sets``."""

    pins: Pins = ()
    """The sets that node labels keep in a domain (``gang.pins``), for one with the trait ``pins_sets``."""

    def to_json(self) -> dict[str, Any]:
        """Values of JSON alone; ``from_json`` is its inverse."""
        return {
            "stage": self.stage,
            "preference_levels": self.preference_levels,
            "order": set_order.to_json(self.order),
            "pins": pins.to_json(self.pins),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "GangForm":
        """Raises ValueError for the form of another release."""
        if value.keys() != _NAMES:
            raise ValueError(f"A form has {', '.join(sorted(_NAMES))}, and not {', '.join(sorted(value))}.")
        return cls(
            stage=value["stage"],
            preference_levels=value["preference_levels"],
            order=set_order.from_json(value["order"]),
            pins=pins.from_json(value["pins"]),
        )


_NAMES = frozenset(field.name for field in fields(GangForm))

USUAL_FORM = GangForm()


def usual_form_json() -> dict[str, Any]:
    """The form that a user wrote, for a row."""
    return USUAL_FORM.to_json()
