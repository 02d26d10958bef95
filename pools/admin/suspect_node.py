"""The suspect nodes of all clusters, and the button by which one is trusted again."""

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from unfold.admin import ModelAdmin
from unfold.decorators import action

from pools import selectors, services
from pools.admin.base import StaffReading
from pools.admin.noscript import NoScript
from pools.admin.pages import AdminPage, error_lines, row_or_404
from pools.admin.revision import ConfirmForm
from pools.models import SuspectNode
from scheduling.errors import TopologyError


@admin.register(SuspectNode)
class SuspectNodeAdmin(StaffReading, ModelAdmin):  # type: ignore[misc]  # unfold has no types
    list_display = ("node", "backends", "since", "until", "groups", "users", "faults")
    search_fields = ("node",)
    fields = list_display
    readonly_fields = fields
    ordering = ("cluster_id", "since", "node")
    actions_detail = ("trust",)

    class Media:
        js: ClassVar = [NoScript()]

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).filter(until__gt=timezone.now())

    @admin.display(description="backends")
    def backends(self, suspect: SuspectNode) -> str:
        """The backends that lead to its cluster."""
        rows = selectors.living_backends().filter(cluster_id=suspect.cluster_id).order_by("name")
        return ", ".join(rows.values_list("name", flat=True))

    @action(description="Trust it again", url_path="trust")  # type: ignore[untyped-decorator]  # unfold
    def trust(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Clear the suspicion of a node after confirmation."""
        suspect = row_or_404(self.get_queryset(request), object_id)
        listed = reverse("admin:pools_suspectnode_changelist")
        backend = selectors.living_backends().filter(cluster_id=suspect.cluster_id).order_by("name").first()
        faults: list[str] = [] if backend else ["No backend leads to its cluster any more."]
        if request.method == "POST" and backend is not None:
            try:
                services.clear_suspicion(backend, node=suspect.node, by=request.user.get_username())
            except TopologyError as error:
                faults = error_lines(error)
            else:
                messages.success(request, f"Node {suspect.node} is trusted again.")
                return redirect(listed)
        page = AdminPage(
            title=f"Trust node {suspect.node} again",
            intro="Its failures are forgotten, and new attempts and submissions may use it. Look at the node "
            "before: kernel log, Xid errors, NVLink and fabric state.",
            back=listed,
            form=ConfirmForm(),
            buttons=[("trust", "Trust it again")],
            faults=faults,
        )
        return page.response(request, self.opts)
