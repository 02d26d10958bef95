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
        """Values of JSON alone; ``from_json`` is its inverse.

        These four are always written. A field of a later release is left out where it is the default, so that
        the release before it goes on with all groups that do not use it.
        """
        return {
            "stage": self.stage,
            "preference_levels": self.preference_levels,
            "order": set_order.to_json(self.order),
            "pins": pins.to_json(self.pins),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "GangForm":
        """What is absent is the default. Raises ValueError for what this release does not know."""
        if unknown := value.keys() - _NAMES:
            raise ValueError(f"form with {', '.join(sorted(unknown))}, which this release does not know")
        return cls(
            stage=value.get("stage", 0),
            preference_levels=value.get("preference_levels"),
            order=set_order.from_json(value.get("order", ())),
            pins=pins.from_json(value.get("pins", ())),
        )


_NAMES = frozenset(field.name for field in fields(GangForm))

USUAL_FORM = GangForm()


def usual_form_json() -> dict[str, Any]:
    """The form that a user wrote, for a row."""
    return USUAL_FORM.to_json()
