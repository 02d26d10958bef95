"""The history of configuration, to read."""

import json
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin

from pools.models import ConfigRevision


@admin.register(ConfigRevision)
class ConfigRevisionAdmin(ModelAdmin):  # type: ignore[misc]  # unfold has no types
    list_display = ("config_type", "revision", "name", "username", "created_at", "description")
    list_filter = ("config_type",)
    search_fields = ("name", "username", "description")
    fields = (*list_display, "tags", "content_shown")
    readonly_fields = fields
    ordering = ("-created_at", "-revision")

    @admin.display(description="content")
    def content_shown(self, revision: ConfigRevision) -> SafeString:
        if revision.content is None:
            return format_html("{}", "Deleted.")
        return format_html("<pre>{}</pre>", json.dumps(revision.content, indent=2, ensure_ascii=False))

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        del obj
        return bool(request.user.is_active and request.user.is_staff)

    def has_add_permission(self, request: HttpRequest) -> bool:
        del request
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        del request, obj
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        del request, obj
        return False
