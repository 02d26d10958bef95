"""The preview of a change of a pool: the form again, with the result of saving it."""

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from pools import services
from pools.admin.key_editor import EDIT, apply_edit
from pools.admin.pages import render_diff
from pools.services import ConfigChange
from scheduling.errors import Fault
from web.access.rights import grants_of


class Previewing:
    """Adds the preview button and its result to an admin of pools."""

    change_form_before_template = "pools/admin/preview.html"
    document: Any

    def is_preview(self, request: HttpRequest) -> bool:
        return EDIT in request.POST

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponseBase:
        context = dict(extra_context or {})
        if request.method == "POST" and EDIT in request.POST:
            request.POST = apply_edit(request.POST, request.POST[EDIT])  # type: ignore[assignment]  # a copy, as it would be
            context["previewed"] = True
        response: HttpResponseBase = super().changeform_view(request, object_id, form_url, context)  # type: ignore[misc]  # of the admin it is mixed into
        return response

    def preview_faults(self, request: HttpRequest, form: Any, formsets: Sequence[Any]) -> Sequence[Fault]:
        preview = services.preview_pool(
            name=form.instance.name,
            document=self.document(form, formsets),
            change=ConfigChange(
                username=request.user.get_username(),
                grants=grants_of(request.user),
                expected_revision=form.cleaned_data["revision_read"] or 0,
            ),
        )
        request.preview = preview  # type: ignore[attr-defined]  # for the page
        return preview.faults

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], **kwargs: Any) -> Any:
        if preview := getattr(request, "preview", None):
            context |= {"preview": preview, "preview_diff": render_diff(preview.diff)}
        return super().render_change_form(request, context, **kwargs)  # type: ignore[misc]  # as above
