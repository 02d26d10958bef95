"""The editor of a pool's topology keys: rows to order, each with its coverage of the pool's nodes.

The page works without a script. Rows are ordered by their numbers, and each button that edits the form (use a
look-alike, add a suggestion, another row) posts it as a preview with that edit and saves nothing. With the
script the same buttons edit the form in place, rows are dragged or moved by the arrow buttons, and coverage
is requested again during the edit. Rejected: Unfold's own sortable rows, which cannot move unsaved rows and
cannot be moved by the keyboard.
"""

from collections.abc import Mapping
from copy import copy
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse, QueryDict
from django.template.loader import render_to_string
from django.urls import URLPattern, path, reverse
from unfold.admin import TabularInline

from pools.admin.base import StaffWriting
from pools.admin.forms import RowForm, RowFormSet
from pools.admin.key_coverage import DraftRow, KeyCoverage, key_coverage
from pools.documents.pool import KEY_FIELDS
from pools.models import Backend, Pool, TopologyKey
from pools.values.selection import label_faults
from scheduling.kubernetes_syntax import is_label_key

PREFIX = "topology_keys"
EDIT = "_preview"
"""The button of the preview; its value may name an edit to make first."""

MOST_ROWS = 48
"""Rows that are read: three times what a pool may have of keys, because each costs a query over all nodes."""


class TopologyKeyForm(RowForm):
    position = forms.IntegerField(
        required=False,
        min_value=0,
        widget=forms.NumberInput(attrs={"class": "desk-input desk-number"}),
        help_text="0 is the broadest. Drag rows or number them; a row without a number comes last.",
    )

    class Meta:
        model = TopologyKey
        fields: ClassVar = ["position", *KEY_FIELDS]
        labels: ClassVar = {"label": "Node label"}
        widgets: ClassVar = {
            "key": forms.TextInput(
                attrs={"class": "desk-input", "spellcheck": "false", "autocomplete": "off"}
            ),
            "label": forms.TextInput(
                attrs={
                    "class": "desk-input desk-label",
                    "spellcheck": "false",
                    "autocomplete": "off",
                    "list": "labels-seen",
                }
            ),
        }

    def attributes(self) -> list[Any]:
        """The bound fields of the key's own attributes, in the order of the document."""
        return [self[name] for name in KEY_FIELDS]

    def values(self) -> list[Any]:
        """The saved attributes, where the row can only be read."""
        return [getattr(self.instance, name) for name in KEY_FIELDS]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if cleaned.get("position") is None:
            cleaned["position"] = None
        return cleaned

    def _post_clean(self) -> None:
        """Build no row: the services number the rows anew."""


class TopologyKeyFormSet(RowFormSet):
    under = PREFIX

    def rows(self) -> list[Any]:
        def place(indexed: tuple[int, Any]) -> tuple[bool, int, int]:
            index, form = indexed
            position = form.cleaned_data.get("position")
            return position is None, position or 0, index

        return [form for _, form in sorted(enumerate(super().rows()), key=place)]

    def documents(self) -> list[dict[str, Any]]:
        """The keys that the rows stand for, broadest first."""
        return [{name: row.cleaned_data[name] for name in KEY_FIELDS} for row in self.rows()]

    def row_of(self, step: str | int) -> Any:
        rows = self.rows()
        return rows[step] if isinstance(step, int) and step < len(rows) else None


class TopologyKeyInline(StaffWriting, TabularInline):  # type: ignore[misc]  # unfold has no types
    model = TopologyKey
    form = TopologyKeyForm
    formset = TopologyKeyFormSet
    template = "pools/admin/keys.html"
    fields = ("position", *KEY_FIELDS)
    headings = tuple(TopologyKeyForm.Meta.labels.get(name, name.capitalize()) for name in KEY_FIELDS)
    ordering = ("position",)
    extra = 1
    verbose_name_plural = "Topology keys, broadest first"

    def get_formset(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> Any:
        """Read only the first rows of a form with more rows than anybody writes."""
        return super().get_formset(request, obj, **kwargs, max_num=MOST_ROWS, absolute_max=MOST_ROWS)


class KeyEditor:
    """The editor's part of the admin of pools: its address, its scripts, its coverage in the page."""

    admin_site: Any
    opts: Any
    get_form: Any
    get_object: Any
    has_view_permission: Any
    _create_formsets: Any

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.coverage_view)
        own = [
            path("coverage/", view, name="pools_pool_coverage_of_new"),
            path("<int:key>/coverage/", view, name="pools_pool_coverage"),
        ]
        return [*own, *super().get_urls()]  # type: ignore[misc]  # of the admin it is mixed into

    def coverage_view(self, request: HttpRequest, key: int | None = None) -> HttpResponse:
        """The coverage of the posted form's keys, as pieces of the page. Reads only."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        pool = self.get_object(request, str(key)) if key is not None else None
        if key is not None and pool is None:
            raise Http404
        form = self.get_form(request, pool, change=pool is not None)(request.POST, instance=pool or Pool())
        formsets, _ = self._create_formsets(request, form.instance, change=pool is not None)
        rows = next(formset for formset in formsets if formset.prefix == PREFIX)
        coverage = form_coverage(form, rows)
        pieces = {
            place: render_to_string(template, summary_context(coverage))
            for place, template in SUMMARIES.items()
        }
        return JsonResponse({"rows": _pieces(rows, coverage), "is_awaited": coverage.is_awaited, **pieces})

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], **kwargs: Any) -> Any:
        form, pool = context["adminform"].form, kwargs.get("obj")
        for inline in context["inline_admin_formsets"]:
            if inline.formset.prefix == PREFIX:
                coverage = form_coverage(form, inline.formset)
                for row in inline.formset.forms:
                    row.findings = _of_row(row.prefix, coverage) | ({"faults": ()} if row.errors else {})
                context |= summary_context(coverage)
                if inline.formset.is_bound and inline.formset.non_form_errors():
                    context["faults_of_all"] = ()  # the form shows them
                context["key_rows"] = sorted(inline.formset.forms, key=_place)
        context["coverage_address"] = (
            reverse("admin:pools_pool_coverage", args=[pool.pk])
            if pool
            else reverse("admin:pools_pool_coverage_of_new")
        )
        return super().render_change_form(request, context, **kwargs)  # type: ignore[misc]  # as above


SUMMARIES = {
    "coverage": "pools/admin/coverage.html",
    "suggestions": "pools/admin/suggestions.html",
    "labels": "pools/admin/labels_seen.html",
}
"""The pieces about all rows together: place in the page -> template."""


def summary_context(coverage: KeyCoverage) -> dict[str, Any]:
    """The context of the pieces about all rows together."""
    return {
        "coverage": coverage,
        "lines": [coverage.rows[row] for row in coverage.order if row in coverage.rows],
        "faults_of_all": coverage.faults.get("", ()),
    }


def _pieces(rows: Any, coverage: KeyCoverage) -> dict[str, str]:
    return {
        row.prefix: render_to_string(
            "pools/admin/row_coverage.html", {"findings": _of_row(row.prefix, coverage)}
        )
        for row in rows.forms
    }


def _of_row(prefix: str, coverage: KeyCoverage) -> dict[str, Any]:
    return {
        "prefix": prefix,
        "index": prefix.rpartition("-")[2],
        "coverage": coverage.rows.get(prefix),
        "faults": coverage.faults.get(prefix, ()),
    }


def form_coverage(form: Any, rows: Any) -> KeyCoverage:
    """The coverage of the keys of a form as it stands, valid or not."""
    pool, unknown = _drafted_pool(form)
    drafted = [
        DraftRow(row.prefix, str(_value(row, "key") or "").strip(), str(_value(row, "label") or "").strip())
        for row in sorted(rows.forms, key=_place)
        if not (row.is_bound and row["DELETE"].value() if "DELETE" in row.fields else False)
    ]
    return key_coverage(pool, drafted, unknown=unknown)


def _drafted_pool(form: Any) -> tuple[Pool | None, str]:
    """The pool as the form stands, unsaved, or None with why its nodes are unknown."""
    pool = copy(form.instance)
    if "backend" not in form.fields:  # shown to read
        return pool, ""
    try:
        backend = form.fields["backend"].clean(form["backend"].value())
    except ValidationError:
        return None, ""
    try:
        selector = form.fields["node_selector"].clean(form["node_selector"].value())
    except ValidationError:
        return None, "The node selector cannot be read, so the pool's nodes are unknown."
    if not _is_selector(selector):
        return (
            None,
            "The node selector is invalid: write labels with their values, such as example.com/pool: train.",
        )
    pool.backend = Backend.objects.select_related("cluster").get(pk=backend.pk)
    pool.node_selector = selector
    return pool, ""


def _is_selector(written: object) -> bool:
    return (
        isinstance(written, dict)
        and all(isinstance(text, str) for pair in written.items() for text in pair)
        and not [*label_faults(written, path=())]
    )


def _value(row: Any, name: str) -> Any:
    return row[name].value() if name in row.fields else getattr(row.instance, name, "")


def _place(row: Any) -> tuple[bool, int, int]:
    """The sort key of a row: by its number, else last, else as it was sent."""
    written = _value(row, "position")
    number = _number("" if written is None else str(written))
    return number is None, number or 0, int(row.prefix.rpartition("-")[2])


def apply_edit(sent: QueryDict, edit: str) -> QueryDict:
    """The form after a button's edit; unchanged for an invalid edit.

    ``label:2:example.com/rack`` gives row 2 another label, ``add:1:rack:example.com/rack`` puts a new row at
    place 1 of the order, ``row`` appends an empty one.
    """
    verb, *arguments = edit.split(":")
    form = sent.copy()
    total = _number(sent.get(f"{PREFIX}-TOTAL_FORMS", ""))
    if total is None or total >= MOST_ROWS:
        return form
    if verb == "row":
        form[f"{PREFIX}-TOTAL_FORMS"] = str(total + 1)
    elif verb == "label" and len(arguments) == 2 and is_label_key(arguments[1]):
        form[f"{PREFIX}-{arguments[0]}-label"] = arguments[1]
    elif verb == "add" and len(arguments) == 3 and is_label_key(arguments[2]):
        _add(form, total, place=_number(arguments[0]) or 0, key=arguments[1], label=arguments[2])
    return form


def _add(form: QueryDict, total: int, *, place: int, key: str, label: str) -> None:
    """Write a row into the first empty one or a new one, and renumber all rows."""
    rows = sorted(range(total), key=lambda index: (*_numbered(form, index), index))
    filled = [
        index for index in rows if form.get(f"{PREFIX}-{index}-key") or form.get(f"{PREFIX}-{index}-label")
    ]
    empty = next((index for index in range(total) if index not in filled), total)
    filled.insert(place, empty)
    form[f"{PREFIX}-TOTAL_FORMS"] = str(max(total, empty + 1))
    form[f"{PREFIX}-{empty}-key"], form[f"{PREFIX}-{empty}-label"] = key, label
    for number, index in enumerate(filled):
        form[f"{PREFIX}-{index}-position"] = str(number)


def _numbered(form: Mapping[str, str], index: int) -> tuple[bool, int]:
    number = _number(form.get(f"{PREFIX}-{index}-position", ""))
    return number is None, number or 0


def _number(written: str) -> int | None:
    """A number as a person would write a place; None for anything else, however long."""
    text = written.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else None
