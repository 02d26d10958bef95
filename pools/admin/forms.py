"""Forms that write documents.

A form reads and shows; it decides nothing. Refusals of the services come back as faults with paths, and each
is shown beside the field that its path names. Uniqueness and order of rows are left to the services too:
Django compares rows one by one with the database, where a swap of two looks like a clash.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import yaml
from django import forms
from django.core.exceptions import ValidationError
from django.forms.models import BaseInlineFormSet
from unfold.widgets import UnfoldAdminTextareaWidget

from pools.documents.yaml_text import TextLimits, parse_document
from scheduling.errors import Fault, InvalidSpec, Path, format_path

if TYPE_CHECKING:
    AnyModelForm = forms.ModelForm[Any]
    AnyInlineFormSet = BaseInlineFormSet[Any, Any, Any]
else:  # generic to the type checker alone
    AnyModelForm = forms.ModelForm
    AnyInlineFormSet = BaseInlineFormSet

MAX_TEXT = 64 * 1024
LIMITS = TextLimits(size=MAX_TEXT, depth=24, aliases=0, entries=5_000, values=20_000, faults=10)
"""Far over what any field may hold; a form has many fields, and reads each twice."""


class YamlField(forms.CharField):
    """A structure, written as YAML or JSON.

    ``empty`` is the value of an empty text, and ``default`` what it is saved as, where that is another.
    """

    def __init__(
        self,
        *,
        empty: list[Any] | dict[str, Any] | None,
        default: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.empty = empty
        self.default = default
        widget = UnfoldAdminTextareaWidget(attrs={"rows": 4, "spellcheck": "false"})
        super().__init__(
            required=False, max_length=MAX_TEXT, widget=widget, empty_value=None, strip=False, **options
        )

    def prepare_value(self, value: Any) -> Any:
        if value is None or isinstance(value, str):
            return value
        if not value or value == self.default:
            return ""
        return yaml.dump(value, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True)

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        if text is None or not str(text).strip():
            return self.empty
        try:
            return parse_document(text, limits=LIMITS).data
        except InvalidSpec as error:
            raise ValidationError([_sentence(fault) for fault in error.faults], code="yaml") from error

    def run_validators(self, value: Any) -> None:
        """Nothing: the length was bounded as text."""

    def validate(self, value: Any) -> None:
        """Nothing: the services read the structure."""

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            was = initial if initial and initial != self.default else self.empty
            return bool(was != self.to_python(data))
        except ValidationError:
            return True


def _sentence(fault: Fault) -> str:
    """A fault of a text in one line, with its place."""
    if fault.code == "too_many_aliases":
        return "Aliases are not accepted: write it out."
    message = fault.message.removeprefix("This is not YAML: ").rstrip(".")
    return f"This is neither YAML nor JSON: {message} (line {fault.line}, column {fault.column})."


class DocumentForm(AnyModelForm):
    """A form whose faults come from the services. ``places`` maps paths to fields named otherwise."""

    faults: ClassVar[Sequence[Fault]] = ()
    places: ClassVar[dict[Path, str]] = {}
    rows_under: ClassVar[tuple[str, ...]] = ()

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        for fault in self.faults:
            if fault.path[:1] and fault.path[0] in self.rows_under:
                continue  # a formset shows it
            field = self._field_of(fault.path)
            path_below = format_path(fault.path[1:]) if field else format_path(fault.path)
            self.add_error(field, _message(fault, path_below))
        return cleaned

    def _field_of(self, path: Path) -> str | None:
        for length in range(len(path), 0, -1):
            name = self.places.get(path[:length], str(path[0]) if length == 1 else "")
            if name in self.fields:
                return name
        return None

    def validate_unique(self) -> None:
        """Leave uniqueness to the services."""

    def validate_constraints(self) -> None:
        """Leave it to the services."""


class RowForm(DocumentForm):
    """A row of a formset; the formset gives it its faults."""


class RowFormSet(AnyInlineFormSet):
    """Rows that become one part of a document. ``under`` is that part's name."""

    faults: ClassVar[Sequence[Fault]] = ()
    under: ClassVar[str] = ""
    preview_only: ClassVar[bool] = False
    """Whether the form is shown again, however sound it is."""

    def is_valid(self) -> bool:
        return super().is_valid() and not self.preview_only

    def add_fields(self, form: Any, index: int | None) -> None:
        """Accept any id: rows are written anew, and the revision reveals other people's changes."""
        super().add_fields(form, index)
        initial = form.fields["id"].initial
        form.fields["id"] = forms.CharField(required=False, initial=initial, widget=forms.HiddenInput)

    def rows(self) -> list[Any]:
        """The forms that count, in the order of the document."""
        return [
            form
            for form in self.forms
            if form not in self.deleted_forms and (form.instance.pk or form.has_changed())
        ]

    def row_of(self, step: str | int) -> Any:
        """The form that a path's second step names, or None."""
        raise NotImplementedError

    def clean(self) -> None:
        super().clean()
        if any(self.errors):
            return
        left = [fault for fault in self._own_faults() if not self._beside_a_field(fault)]
        if left:
            raise ValidationError([_message(fault, format_path(fault.path[1:])) for fault in left])

    def _own_faults(self) -> Iterable[Fault]:
        return (fault for fault in self.faults if fault.path[:1] == (self.under,))

    def _beside_a_field(self, fault: Fault) -> bool:
        form = self.row_of(fault.path[1]) if len(fault.path) > 1 else None
        if form is None:
            return False
        field = str(fault.path[2]) if len(fault.path) > 2 else "name"
        is_field = field in form.fields
        path_below = format_path(fault.path[3:] if is_field else fault.path[2:])
        form.add_error(field if is_field else None, _message(fault, path_below))
        return True

    def validate_unique(self) -> None:
        """Leave uniqueness to the services."""


def _message(fault: Fault, path_below: str) -> str:
    message = f"{path_below}: {fault.message}" if path_below else fault.message
    if fault.allowed and len(fault.allowed) <= 8 and not fault.code.startswith("invalid_"):
        message += f" Accepted: {', '.join(map(str, fault.allowed))}."
    return message
