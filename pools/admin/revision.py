"""The history of configuration in the admin: read, compare, tag, take out, roll back."""

import json
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin
from unfold.decorators import action
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget, UnfoldBooleanWidget

from pools import history, selectors, services
from pools.admin.base import StaffReading
from pools.admin.noscript import NoScript
from pools.admin.pages import AdminPage, error_lines, render_diff, row_or_404
from pools.models import ConfigRevision, PodTemplate, Pool
from pools.services import ConfigChange
from scheduling.errors import Fault, InvalidSpec, TopologyError
from web.access.rights import grants_of

CONTENT = '<pre class="desk-diff" tabindex="0" aria-label="Content">{}</pre>'
MAX_REVISIONS = 100
"""Of one object, in its own history and to compare with."""


class GoBackForm(forms.Form):
    reason = forms.CharField(
        required=False,
        max_length=10_000,
        widget=UnfoldAdminTextInputWidget,
        help_text="Why; kept in the history.",
    )
    force = forms.BooleanField(
        required=False,
        widget=UnfoldBooleanWidget,
        help_text="Where the rollback deletes the object: delete it although work still runs there.",
    )
    revision_read = forms.IntegerField(widget=forms.HiddenInput)


class TagsForm(forms.Form):
    tags = forms.CharField(
        required=False, widget=UnfoldAdminTextInputWidget, help_text="Separated by commas."
    )


class CompareForm(forms.Form):
    other = forms.ModelChoiceField(
        queryset=ConfigRevision.objects.none(), widget=UnfoldAdminSelectWidget, label="Compare with"
    )

    def __init__(self, data: Any, *, revision: ConfigRevision) -> None:
        super().__init__(data)
        others = revisions_of(revision.config_type, revision.name).exclude(pk=revision.pk)
        self.fields["other"].queryset = others.only(*history.METADATA)  # type: ignore[attr-defined]  # of its class


class ConfirmForm(forms.Form):
    """No field: only a button."""


def revisions_of(config_type: str, name: str) -> Any:
    """The visible revisions of one object, the newest first."""
    rows = ConfigRevision.objects.filter(config_type=config_type, name=name, deleted_at=None)
    return rows.order_by("-revision")


def render_history(config_type: str, name: str) -> SafeString:
    """The history of one object, with what can be done with each revision."""
    rows = revisions_of(config_type, name).only(*history.METADATA)[:MAX_REVISIONS]
    return render_to_string("pools/admin/history.html", {"rows": rows})


@admin.register(ConfigRevision)
class ConfigRevisionAdmin(StaffReading, ModelAdmin):  # type: ignore[misc]  # unfold has no types
    list_display = ("config_type", "revision", "name", "username", "created_at", "description", "tags")
    list_filter = ("config_type", "username", "created_at")
    search_fields = ("name", "username", "description")
    fields = (*list_display, "current_object", "changes", "content_text")
    readonly_fields = fields
    ordering = ("-created_at", "-revision")
    actions_detail = ("go_back", "compare", "edit_tags", "take_out")

    class Media:
        js: ClassVar = [NoScript()]

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).filter(deleted_at=None)

    @admin.display(description="current object")
    def current_object(self, revision: ConfigRevision) -> SafeString:
        """A link to the object itself, if one of this name exists."""
        rows: dict[str, tuple[str, Any]] = {
            ConfigRevision.Type.POOL: ("pool", Pool.objects.all()),
            ConfigRevision.Type.BACKEND: ("backend", selectors.living_backends()),
            ConfigRevision.Type.POD_TEMPLATE: ("podtemplate", PodTemplate.objects.all()),
        }
        model, objects = rows.get(revision.config_type, ("", Pool.objects.none()))
        key = objects.filter(name=revision.name).values_list("pk", flat=True).first()
        if key is None:
            return format_html("{}", "It does not exist or has no page here.")
        address = reverse(f"admin:pools_{model}_change", args=[key])
        return format_html('<a class="desk-link" href="{}">{}</a>', address, revision.name)

    @admin.display(description="changes")
    def changes(self, revision: ConfigRevision) -> SafeString:
        older = revisions_of(revision.config_type, revision.name).filter(revision__lt=revision.revision)
        return render_diff(_diff(older.first(), revision))

    @admin.display(description="content")
    def content_text(self, revision: ConfigRevision) -> SafeString:
        if revision.content is None:
            return format_html("{}", "Deleted.")
        return format_html(CONTENT, json.dumps(revision.content, indent=2, ensure_ascii=False))

    @action(description="Roll back to this", url_path="go-back")  # type: ignore[untyped-decorator]  # unfold
    def go_back(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show what a rollback would change, and do it after confirmation."""
        revision = row_or_404(self.get_queryset(request), object_id)
        newest = ConfigRevision.objects.filter(config_type=revision.config_type, name=revision.name)
        present = newest.order_by("-revision")[0]
        read = 0 if present.content is None else present.revision
        form = GoBackForm(request.POST or None, initial={"revision_read": read})
        faults: list[str] = []
        if form.is_valid():
            try:
                return self._went_back(request, revision, form.cleaned_data)
            except TopologyError as error:
                faults = error_lines(error)
        page = AdminPage(
            title=f"Roll back to {_name(revision)}",
            intro=f'This restores "{revision.name}" to its state after that revision; nothing else changes. '
            "It passes the checks of every other write. The changes from the current state:",
            back=_address(revision),
            form=form,
            buttons=[("go-back", "Roll back")],
            faults=faults,
            content=render_diff(_diff(present, revision)),
        )
        return page.response(request, self.opts)

    def _went_back(
        self, request: HttpRequest, revision: ConfigRevision, values: dict[str, Any]
    ) -> HttpResponse:
        saved = services.roll_back(
            config_type=revision.config_type,
            revision=revision.revision,
            change=ConfigChange(
                username=request.user.get_username(),
                grants=grants_of(request.user),
                description=values["reason"],
                expected_revision=values["revision_read"],
            ),
            force=values["force"],
        )
        messages.success(request, f'"{saved.name}" is rolled back to {_name(revision)}.')
        return redirect(_address(saved))

    @action(description="Compare", url_path="compare")  # type: ignore[untyped-decorator]  # unfold
    def compare(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Compare two revisions of one object, the older first."""
        revision = row_or_404(self.get_queryset(request), object_id)
        form = CompareForm(request.GET or None, revision=revision)
        content = SafeString("")
        if form.is_valid():
            pair = sorted((revision, form.cleaned_data["other"]), key=lambda row: row.revision)
            content = render_diff(_diff(*pair))
        page = AdminPage(
            title=f"Compare {_name(revision)}",
            intro=f'Two revisions of "{revision.name}", the older first.',
            back=_address(revision),
            form=form,
            method="get",
            buttons=[("compare", "Compare")],
            content=content,
        )
        return page.response(request, self.opts)

    @action(description="Tags", url_path="tags")  # type: ignore[untyped-decorator]  # unfold
    def edit_tags(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Write the tags of a revision."""
        revision = row_or_404(self.get_queryset(request), object_id)
        form = TagsForm(request.POST or None, initial={"tags": ", ".join(revision.tags)})
        faults: list[str] = []
        if request.method == "POST" and form.is_valid():
            try:
                _write_tags(request, revision, form.cleaned_data["tags"])
            except TopologyError as error:
                faults = error_lines(error)
            else:
                return redirect(_address(revision))
        page = AdminPage(
            title=f"Tags of {_name(revision)}",
            intro="Words to find a revision by.",
            back=_address(revision),
            form=form,
            buttons=[("save", "Save")],
            faults=faults,
        )
        return page.response(request, self.opts)

    @action(description="Take out", url_path="take-out")  # type: ignore[untyped-decorator]  # unfold
    def take_out(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Take a revision out of the history after confirmation."""
        revision = row_or_404(self.get_queryset(request), object_id)
        faults: list[str] = []
        if request.method == "POST":
            try:
                services.take_out(
                    config_type=revision.config_type,
                    revision=revision.revision,
                    change=ConfigChange(username=request.user.get_username(), grants=grants_of(request.user)),
                )
            except TopologyError as error:
                faults = error_lines(error)
            else:
                messages.success(request, f"{_name(revision)} was taken out of the history.")
                return redirect(reverse("admin:pools_configrevision_changelist"))
        page = AdminPage(
            title=f"Take {_name(revision)} out of the history",
            intro="It is hidden from now on, and no rollback reaches it. Its change stays in force.",
            back=_address(revision),
            form=ConfirmForm(),
            buttons=[("take-out", "Take it out")],
            faults=faults,
        )
        return page.response(request, self.opts)


def _write_tags(request: HttpRequest, revision: ConfigRevision, written: str) -> None:
    tags = [tag for part in written.split(",") if (tag := part.strip())]
    if long := [tag for tag in tags if len(tag) > 63]:
        message = f"A tag has at most 63 characters; {long[0][:63]!r} is longer."
        raise InvalidSpec(message, [Fault(("tags",), "too_long", message)])
    services.retag(
        config_type=revision.config_type,
        revision=revision.revision,
        change=ConfigChange(username=request.user.get_username(), grants=grants_of(request.user)),
        add=tags,
        remove=[tag for tag in revision.tags if tag not in tags],
    )


def _diff(before: ConfigRevision | None, after: ConfigRevision) -> str:
    was = _name(before) if before else ""
    return history.unified_diff(
        before.content if before else None, after.content, name=after.name, was=was, now=_name(after)
    )


def _name(revision: ConfigRevision) -> str:
    return f"{revision.config_type}:{revision.revision}"


def _address(revision: ConfigRevision) -> str:
    return reverse("admin:pools_configrevision_change", args=[revision.pk])
