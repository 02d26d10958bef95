"""Pages of the admin that are no forms of a row: an introduction, content, a form and its buttons."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from django import forms
from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from scheduling.errors import Fault, TopologyError, format_path

Row = TypeVar("Row", bound=Model)

_KINDS = {"+": "desk-added", "-": "desk-gone", "@": "desk-where"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminPage:
    """One page; ``content`` is put above the form, ``buttons`` are (value of ``do``, caption)."""

    title: str
    intro: str
    back: str
    form: forms.Form | None = None
    method: str = "post"
    buttons: Sequence[tuple[str, str]] = ()
    faults: Sequence[str] = ()
    content: SafeString = field(default_factory=lambda: SafeString(""))

    def response(self, request: HttpRequest, opts: Any) -> TemplateResponse:
        context = admin.site.each_context(request) | {
            "opts": opts,
            "title": self.title,
            "intro": self.intro,
            "back": self.back,
            "form": self.form,
            "method": self.method,
            "buttons": self.buttons,
            "faults": self.faults,
            "content": self.content,
        }
        return TemplateResponse(request, "pools/admin/page.html", context)


def row_or_404(rows: QuerySet[Row], key: str) -> Row:
    """The row that an address names, whatever the address holds. Raises Http404."""
    if not (key.isascii() and key.isdigit()):
        raise Http404
    return get_object_or_404(rows, pk=key)


def error_lines(error: TopologyError) -> list[str]:
    """The faults of an error, one line each, or the error where it has none: its message repeats them."""
    return [_fault(fault) for fault in error.faults] or [error.message]


def _fault(fault: Fault) -> str:
    at = (f"line {fault.line}: " if fault.line else "") + (
        f"{format_path(fault.path)}: " if fault.path else ""
    )
    allowed = f" Accepted: {', '.join(fault.allowed[:8])}." if fault.allowed else ""
    return f"{at}{fault.message}{allowed}"


def render_diff(diff: str) -> SafeString:
    """A unified diff, line by line; colours repeat its signs."""
    if not diff:
        return format_html("<p>{}</p>", "Nothing differs.")
    lines = ((_KINDS.get(line[:1], "desk-same"), line) for line in diff.splitlines())
    spans = format_html_join("\n", '<span class="{}">{}</span>', lines)
    return format_html('<pre class="desk-diff" tabindex="0" aria-label="Difference">{}</pre>', spans)
