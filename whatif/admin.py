"""The what-if page: a form for a scenario, and its effect on the groups that wait. It writes nothing.

The form builds the document that REST takes, and the same code reads it, so both refuse the same faults with
the same messages. Staff may do everything and so may read all names.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import reverse
from rest_framework.exceptions import ValidationError
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget

from pools import selectors
from pools.admin.forms import YamlField
from pools.admin.pages import AdminPage, error_lines, row_or_404
from pools.models import Pool
from scheduling.errors import InvalidSpec, TopologyError
from web.rest.errors import faults_of
from whatif.api import notes_of, scenario_in
from whatif.comparison import Effect, WhatIf, what_if
from workflows.feasibility.placement.fragmentation import PoolFragments

INTRODUCTION = (
    "Describe other nodes or keys and see what would happen to the groups that wait. Nothing is saved, and "
    "nodes and workflows do not change."
)
TONES: Mapping[Effect, str] = {
    Effect.FITS: "good",
    Effect.POSSIBLE: "good",
    Effect.WAITS: "look",
    Effect.IMPOSSIBLE: "bad",
    Effect.SAME: "none",
}


class LinesField(forms.CharField):
    """Names, one a line."""

    def __init__(self, **options: Any) -> None:
        widget = UnfoldAdminTextareaWidget(attrs={"rows": 2, "spellcheck": "false"})
        super().__init__(required=False, max_length=100_000, widget=widget, **options)

    def clean(self, value: Any) -> list[str]:
        return [line.strip() for line in str(super().clean(value) or "").splitlines() if line.strip()]


class WhatIfForm(forms.Form):
    drain = YamlField(
        empty=[], help_text="Domains whose nodes are drained, as YAML, such as: [{zone: a, rack: r1}]"
    )
    drain_nodes = LinesField(help_text="Nodes to drain, one a line.")
    add_nodes = YamlField(
        empty=[],
        help_text="Nodes to add, as YAML, such as: [{count: 4, like: n1, labels: {example.com/rack: r9}}]",
    )
    topology_keys = YamlField(
        empty=[], help_text="The pool's keys, broadest first: move lines, change labels, take keys away."
    )
    backend = forms.ChoiceField(
        required=False,
        widget=UnfoldAdminSelectWidget,
        label="On backend",
        help_text="The backend whose nodes and scheduler the pool would have.",
    )
    move_to = forms.ChoiceField(
        required=False,
        widget=UnfoldAdminSelectWidget,
        label="Moved to pool",
        help_text="The pool whose nodes and keys the waiting groups would have.",
    )
    without = LinesField(label="Without workflows", help_text="Workflows that end, one a line.")

    def __init__(self, data: Any, *, pool: Pool) -> None:
        self.keys = [{"key": row.key, "label": row.label} for row in selectors.pool_levels(pool)]
        super().__init__(data, initial={"topology_keys": self.keys})
        backends = selectors.living_backends().exclude(pk=pool.backend_id).order_by("name")
        others = Pool.objects.exclude(pk=pool.pk).order_by("name")
        for field, rows in (("backend", backends), ("move_to", others)):
            names = [(name, name) for name in rows.values_list("name", flat=True)]
            self.fields[field].choices = [("", "as it is"), *names]  # type: ignore[attr-defined]  # of its class

    def document(self) -> dict[str, Any]:
        """The document for REST; unchanged keys are left out."""
        document = dict(self.cleaned_data)
        if document["topology_keys"] == self.keys:
            document["topology_keys"] = None
        return document


def what_if_page(request: HttpRequest, object_id: str) -> HttpResponse:
    """Show the form, and the answer once it was sent."""
    if not (request.user.is_active and request.user.is_staff):
        raise PermissionDenied
    rows = Pool.objects.select_related("backend__cluster").prefetch_related("topology_keys", "platforms")
    pool = row_or_404(rows, object_id)
    form = WhatIfForm(request.POST if request.method == "POST" else None, pool=pool)
    faults: Sequence[str] = ()
    result: WhatIf | None = None
    if form.is_valid():
        try:
            result = what_if(pool, scenario_in(form.document()), user=request.user, names=True)
        except ValidationError as error:
            faults = error_lines(InvalidSpec("", faults_of(error)))
        except TopologyError as error:
            faults = error_lines(error)
    page = AdminPage(
        title=f"What if: pool {pool.name}",
        intro=INTRODUCTION,
        back=reverse("admin:pools_pool_change", args=[pool.pk]),
        form=form,
        buttons=[("ask", "Compare")],
        faults=faults,
        **({"content": render_to_string("whatif/what_if.html", _context(result))} if result else {}),
    )
    return page.response(request, Pool._meta)  # noqa: SLF001 -- Django's documented name


def _context(result: WhatIf) -> dict[str, Any]:
    counts = result.counts()
    return {
        "result": result,
        "counts": [(TONES[effect], effect.words, counts[effect]) for effect in Effect],
        "groups": [(TONES[group.effect], group.effect.words, group) for group in result.groups],
        "notes": notes_of(result),
        "fragments": [("before", _slots(result.before)), ("after", _slots(result.after))],
    }


def _slots(fragments: PoolFragments) -> list[tuple[str, int, int, str]]:
    """For each key: its name, free nodes, the largest slot, and how many slots of each size fit."""
    return [
        (key.key, key.free, key.largest, ", ".join(f"{count} of {size}" for size, count in key.slots.items()))
        for key in fragments.keys
    ]
