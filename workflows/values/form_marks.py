"""The marks of a gang's form: annotations of its pod group that tell whether an edit was left out."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from scheduling.gang import pins, set_order
from scheduling.gang.gang_form import GangForm
from workflows.values.observation import (
    ORDER_ANNOTATION,
    PINNED_SETS_ANNOTATION,
    PREFERENCE_LEVELS_ANNOTATION,
    STAGE_ANNOTATION,
)


@dataclass(frozen=True, slots=True)
class FormMarks:
    """A form as a pod group says it: ``order`` and ``pins`` are digests, empty for none."""

    stage: int = 0
    preference_levels: int | None = None
    order: str = ""
    pins: str = ""

    @classmethod
    def of(cls, form: GangForm) -> "FormMarks":
        return cls(
            form.stage, form.preference_levels, set_order.digest_of(form.order), pins.digest_of(form.pins)
        )

    @classmethod
    def read(cls, annotations: Mapping[str, str], *, stages: int, levels: int) -> "FormMarks":
        """The marks of a pod group, within what the gang has; a number that is none was not written by us."""
        stage = _number(annotations.get(STAGE_ANNOTATION)) or 0
        preference_levels = _number(annotations.get(PREFERENCE_LEVELS_ANNOTATION))
        return cls(
            min(stage, stages - 1) if stage else 0,
            None if preference_levels is None else min(preference_levels, levels),
            annotations.get(ORDER_ANNOTATION, ""),
            annotations.get(PINNED_SETS_ANNOTATION, ""),
        )

    @property
    def annotations(self) -> dict[str, str | None]:
        """As a patch: None for one that a pod group of this form lacks."""
        levels = self.preference_levels
        return {
            STAGE_ANNOTATION: str(self.stage) if self.stage else None,
            PREFERENCE_LEVELS_ANNOTATION: None if levels is None else str(levels),
            ORDER_ANNOTATION: self.order or None,
            PINNED_SETS_ANNOTATION: self.pins or None,
        }

    def easing(self, form: GangForm) -> GangForm:
        """The form with its preferences eased as far as these marks say."""
        return replace(form, stage=self.stage, preference_levels=self.preference_levels)


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None
