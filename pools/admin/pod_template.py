"""The admin of pod templates: part of a pod as YAML, with the pools and platforms that use it."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.safestring import SafeString
from unfold.widgets import UnfoldAdminTextInputWidget

from pools import services
from pools.admin.base import ConfigurationAdmin, render_table
from pools.admin.forms import DocumentForm, YamlField
from pools.models import PodTemplate
from pools.pod_templates.notices import template_notices
from pools.pod_templates.variables import VARIABLES
from pools.services import ConfigChange, Saved
from pools.services.pod_templates import users_of


class PodTemplateForm(DocumentForm):
    content = YamlField(
        empty={},
        help_text=f"metadata and spec of a pod, in part, as YAML. Variables: {', '.join(VARIABLES)}.",
    )
    revision_read = forms.IntegerField(widget=forms.HiddenInput, required=False)
    change_reason = forms.CharField(
        required=False, widget=UnfoldAdminTextInputWidget, help_text="Why; kept in the history."
    )
    places: ClassVar = {("metadata",): "content", ("spec",): "content"}

    class Meta:
        model = PodTemplate
        fields: ClassVar = ["name", "content"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["revision_read"].initial = self.instance.revision
        self.fields["content"].widget.attrs["rows"] = 24


@admin.register(PodTemplate)
class PodTemplateAdmin(ConfigurationAdmin):
    form = PodTemplateForm
    list_display = ("name", "revision")
    search_fields = ("name",)
    readonly_fields = ("revision", "used_by")
    fieldsets = (
        (None, {"fields": ("name", "content")}),
        ("State", {"fields": ("used_by", "revision", "change_reason", "revision_read")}),
    )

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[str]:
        del request
        return (*self.readonly_fields, "name") if obj else self.readonly_fields

    @admin.display(description="used by")
    def used_by(self, row: PodTemplate) -> SafeString:
        return render_table("Where it is used", ["Pool or platform"], [[user] for user in users_of(row.name)])

    def document(self, form: Any, formsets: Sequence[Any]) -> dict[str, Any]:
        del formsets
        content: dict[str, Any] = form.cleaned_data["content"]
        return content

    def write(self, *, name: str, document: dict[str, Any], change: ConfigChange) -> Saved[Any]:
        row = services.put_pod_template(name=name, document=document, change=change)
        return Saved(row, tuple(template_notices(row.content)))

    def erase(self, obj: Any, *, change: ConfigChange) -> None:
        services.delete_pod_template(name=obj.name, change=change)
