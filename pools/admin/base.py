"""The common part of the admins of configuration: saving through the services.

Django opens a transaction, validates, and saves row by row. Here it only validates. A valid form ends that
transaction by an exception that carries the forms out; then the service runs, in its own transaction, and may
first ask a cluster, which must never happen inside one. If the service refuses, the view runs again with the
faults, and the forms show them beside their fields. Rejected: checking in ``clean`` and saving later, which
leaves a gap between the two.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin

from pools.admin.files import FileActions
from pools.admin.noscript import NoScript
from pools.conditions.advice import advice_of
from pools.models import Backend, Pool
from pools.services import ConfigChange, Saved, declared
from pools.services.recording import declared_file
from scheduling.errors import Fault, Notice, TopologyError, format_path
from web.access.rights import grants_of


class _ReadyError(Exception):
    """The forms are valid; nothing was written."""

    def __init__(self, form: Any, formsets: Sequence[Any], *, change: bool) -> None:
        super().__init__("the forms are valid")
        self.form = form
        self.formsets = formsets
        self.change = change


class StaffReading:
    """Rows that all staff may view, and that change through buttons alone."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return _is_staff(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        del obj
        return _is_staff(request)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        del request, obj
        return False

    has_change_permission = has_delete_permission = has_add_permission


class StaffWriting(StaffReading):
    """Rows that staff may edit, and rows of an object that they may edit."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        del obj
        return _may_write(request)

    has_change_permission = has_delete_permission = has_add_permission


class ConfigurationAdmin(StaffWriting, FileActions, ModelAdmin):  # type: ignore[misc]  # unfold has no types
    """An admin that writes through the services. Staff may do everything.

    Where a file is the source of configuration, everything can be read and nothing written.
    """

    save_on_top = False
    actions = None  # deleting many at once would pass by the services
    compressed_fields = False
    warn_unsaved_form = True

    class Media:
        js: ClassVar = [NoScript(), "pools/desk.js"]

    def write(self, *, name: str, document: dict[str, Any], change: ConfigChange) -> Saved[Any]:
        """Save a document; raises TopologyError."""
        raise NotImplementedError

    def erase(self, obj: Any, *, change: ConfigChange) -> None:
        """Delete an object; raises TopologyError."""
        raise NotImplementedError

    def document(self, form: Any, formsets: Sequence[Any]) -> dict[str, Any]:
        """The document that valid forms describe."""
        raise NotImplementedError

    def is_preview(self, request: HttpRequest) -> bool:
        """Whether the form was posted for a preview and not to be saved."""
        del request
        return False

    def preview_faults(self, request: HttpRequest, form: Any, formsets: Sequence[Any]) -> Sequence[Fault]:
        """The faults that saving the valid forms would report; saves nothing."""
        raise NotImplementedError

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponseBase:
        request.faults = ()  # type: ignore[attr-defined]  # what the forms of this request shall show
        _report_declared_file(request)
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)  # type: ignore[no-any-return]  # unfold
        except _ReadyError as ready:
            valid = ready
        if self.is_preview(request):
            request.faults = self.preview_faults(request, valid.form, valid.formsets)  # type: ignore[attr-defined]  # as above
            request.preview_only = True  # type: ignore[attr-defined]  # the same
            return super().changeform_view(request, object_id, form_url, extra_context)  # type: ignore[no-any-return]  # unfold
        try:
            saved = self._write(request, valid)
        except TopologyError as error:
            request.faults = error.faults or (Fault((), error.code, error.message),)  # type: ignore[attr-defined]  # as above
            return super().changeform_view(request, object_id, form_url, extra_context)  # type: ignore[no-any-return]  # unfold
        return self._saved(request, valid, saved)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        _report_declared_file(request)
        return super().changelist_view(request, extra_context)

    def _write(self, request: HttpRequest, valid: _ReadyError) -> Saved[Any]:
        return self.write(
            name=valid.form.instance.name,
            document=self.document(valid.form, valid.formsets),
            change=replace(_change(request), expected_revision=valid.form.cleaned_data["revision_read"] or 0),
        )

    def _saved(self, request: HttpRequest, valid: _ReadyError, saved: Saved[Any]) -> HttpResponse:
        for notice in saved.notices:
            messages.warning(request, _notice_text(notice))
        response: HttpResponse
        if valid.change:
            self.log_change(request, saved.value, "Saved.")
            response = self.response_change(request, saved.value)
        else:
            self.log_addition(request, saved.value, "Added.")
            response = self.response_add(request, saved.value)
        return response

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:  # noqa: FBT001 -- Django's
        """Write nothing: the service does, once Django's transaction is over."""

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:  # noqa: FBT001 -- Django's
        del request
        raise _ReadyError(form, formsets, change=change)

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponseBase:
        try:
            response: HttpResponseBase = super().delete_view(request, object_id, extra_context)
        except TopologyError as error:
            messages.error(request, error.message)
            opts = self.opts
            return redirect(reverse(f"admin:{opts.app_label}_{opts.model_name}_change", args=[object_id]))
        return response

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        self.erase(obj, change=_change(request))

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> tuple[Any, Any, Any, Any]:
        """Name the object alone: the service says what prevents the deletion."""
        del request
        return [str(obj) for obj in objs], {}, set(), []

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:  # noqa: FBT001, FBT002 -- Django's
        form = super().get_form(request, obj, change=change, **kwargs)
        form.faults = getattr(request, "faults", ())
        return form

    def get_formsets_with_inlines(self, request: HttpRequest, obj: Any = None) -> Any:
        for formset, inline in super().get_formsets_with_inlines(request, obj):
            formset.faults = getattr(request, "faults", ())
            formset.preview_only = getattr(request, "preview_only", False)
            yield formset, inline


def _may_write(request: HttpRequest) -> bool:
    return _is_staff(request) and not declared_file()


def _report_declared_file(request: HttpRequest) -> None:
    """Say that a file is the source of configuration, and how its last application went."""
    if not declared_file() or request.method != "GET":
        return
    messages.info(request, f"Configuration is declared in the file {declared_file()}: it is read-only here.")
    condition = declared.condition()
    if condition and condition["status"] != "True":
        messages.error(request, f"The last good configuration is in force: {condition['message']}")


def _is_staff(request: HttpRequest) -> bool:
    return bool(request.user.is_active and request.user.is_staff)


def _change(request: HttpRequest) -> ConfigChange:
    reason = request.POST.get("change_reason", "").replace("\0", "")
    return ConfigChange(
        username=request.user.get_username(), grants=grants_of(request.user), description=reason[:10_000]
    )


def _notice_text(notice: Notice) -> str:
    return f"{format_path(notice.path)}: {notice.message}" if notice.path else notice.message


def render_table(title: str, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> SafeString:
    """A small table."""
    return render_to_string("pools/admin/table.html", {"title": title, "head": head, "rows": rows})


def render_conditions(obj: Backend | Pool) -> SafeString:
    """Conditions as a table with advice, the most severe first."""
    return render_to_string("pools/admin/conditions.html", {"advice": advice_of(obj)})


def render_mark(tone: str, text: str) -> str:
    """A word with its sign and colour; plain without a tone."""
    return render_to_string("pools/admin/mark.html", {"tone": tone, "text": text}) if tone else text
