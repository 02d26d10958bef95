"""Configuration as a file in the admin: export it, and import one after a preview of its changes."""

from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.safestring import SafeString
from unfold.decorators import action
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget, UnfoldBooleanWidget

from pools import services
from pools.admin.pages import AdminPage, error_lines, render_diff
from pools.documents.yaml_text import TextLimits
from pools.services import ConfigChange, WriteMode
from scheduling.errors import TopologyError
from scheduling.sentences import count_of
from web.access.rights import grants_of


class ImportForm(forms.Form):
    text = forms.CharField(
        max_length=TextLimits().size,
        strip=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 20, "spellcheck": "false"}),
        label="Configuration as YAML",
        help_text="In the format of the export, or as OSMO's client prints it.",
    )
    prune = forms.BooleanField(
        required=False, widget=UnfoldBooleanWidget, help_text="Delete what its sections leave out."
    )
    reason = forms.CharField(
        required=False,
        max_length=10_000,
        widget=UnfoldAdminTextInputWidget,
        help_text="Why; kept in the history.",
    )


class FileActions:
    """Export and import, above a list of pools or backends."""

    actions_list = ("export_file", "import_file")
    opts: Any

    @action(description="Export all as YAML", url_path="export")  # type: ignore[untyped-decorator]  # unfold
    def export_file(self, request: HttpRequest) -> HttpResponse:
        """Send the configuration as a file."""
        _staff(request)
        reply = HttpResponse(services.export_configuration(), content_type="application/yaml")
        reply["Content-Disposition"] = 'attachment; filename="configuration.yaml"'
        return reply

    @action(description="Import YAML", url_path="import")  # type: ignore[untyped-decorator]  # unfold
    def import_file(self, request: HttpRequest) -> HttpResponse:
        """Show what a file would change, and import it after confirmation."""
        _staff(request)
        back = reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist")
        form = ImportForm(request.POST or None)
        faults: list[str] = []
        content = SafeString("")
        if form.is_valid():
            try:
                done = _imported(request, form.cleaned_data)
            except TopologyError as error:
                faults = error_lines(error)
            else:
                if request.POST.get("do") == "import":
                    messages.success(request, f"{count_of(len(done.changed), 'object')} changed.")
                    return redirect(back)
                content = render_diff(done.diff)
        page = AdminPage(
            title="Import configuration",
            intro="Everything is imported or nothing, with the checks of every other write. "
            "Preview the changes first.",
            back=back,
            form=form,
            buttons=[("look", "Show what would change"), ("import", "Import")],
            faults=faults,
            content=content,
        )
        return page.response(request, self.opts)


def _imported(request: HttpRequest, values: dict[str, Any]) -> services.Imported:
    why = values["reason"] or "Imported in the admin."
    mode = WriteMode.COMMIT if request.POST.get("do") == "import" else WriteMode.DRY_RUN
    user = request.user.get_username()
    change = ConfigChange(username=user, grants=grants_of(request.user), description=why, mode=mode)
    return services.import_request(text=values["text"], change=change, prune=values["prune"])


def _staff(request: HttpRequest) -> None:
    """Raise PermissionDenied for everybody else, whatever the admin's wrapping does."""
    if not (request.user.is_active and request.user.is_staff):
        raise PermissionDenied
