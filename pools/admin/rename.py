"""Renaming a pool in the admin, on a page of its own, since a name is more than a field of the form."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from unfold.decorators import action
from unfold.widgets import UnfoldAdminTextInputWidget, UnfoldBooleanWidget

from pools import services
from pools.admin.pages import AdminPage, error_lines, row_or_404
from pools.models import Pool
from pools.services import ConfigChange
from scheduling.errors import TopologyError
from web.access.rights import grants_of


class RenameForm(forms.Form):
    new_name = forms.CharField(max_length=63, widget=UnfoldAdminTextInputWidget)
    force = forms.BooleanField(
        required=False,
        widget=UnfoldBooleanWidget,
        help_text="Rename although workflows live; they run on under the old name.",
    )
    reason = forms.CharField(
        required=False,
        max_length=10_000,
        widget=UnfoldAdminTextInputWidget,
        help_text="Why; kept in the history.",
    )
    revision_read = forms.IntegerField(widget=forms.HiddenInput)


class RenameAction:
    """The button on a pool's page."""

    actions_detail: Sequence[str] = ("rename",)
    opts: Any

    @action(description="Rename", url_path="rename")  # type: ignore[untyped-decorator]  # unfold
    def rename(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask for the new name and rename the pool."""
        if not (request.user.is_active and request.user.is_staff):
            raise PermissionDenied
        pool = row_or_404(Pool.objects.all(), object_id)
        back = reverse("admin:pools_pool_change", args=[pool.pk])
        form = RenameForm(request.POST or None, initial={"revision_read": pool.revision})
        faults: list[str] = []
        if form.is_valid():
            try:
                return _renamed(request, pool, form.cleaned_data, back=back)
            except TopologyError as error:
                faults = error_lines(error)
        page = AdminPage(
            title=f"Rename pool {pool.name}",
            intro="Accepted workflows keep the old name. Default pools of profiles follow; roles do not.",
            back=back,
            form=form,
            buttons=[("rename", "Rename")],
            faults=faults,
        )
        return page.response(request, self.opts)


def _renamed(request: HttpRequest, pool: Pool, values: dict[str, Any], *, back: str) -> HttpResponse:
    saved = services.rename_pool(
        name=pool.name,
        new_name=values["new_name"],
        change=ConfigChange(
            username=request.user.get_username(),
            grants=grants_of(request.user),
            description=values["reason"],
            expected_revision=values["revision_read"],
        ),
        force=values["force"],
    )
    for notice in saved.notices:
        messages.warning(request, notice.message)
    return redirect(back)
