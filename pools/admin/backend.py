"""The admin of backends."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.formats import localize
from django.utils.safestring import SafeString
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from pools import selectors, services
from pools.admin.base import ConfigurationAdmin, render_conditions, render_mark, render_table
from pools.admin.desk import badges
from pools.admin.forms import DocumentForm, YamlField
from pools.admin.revision import render_history
from pools.clusters.capabilities import capabilities_of, table_of
from pools.conditions.advice import Tone
from pools.documents.backend import COLUMNS, BarrierDocument, NodeConditionsDocument
from pools.models import Backend, ConfigRevision
from pools.services import ConfigChange, Saved
from scheduling.backends.registry import installed, product_of

_SUPPORT = {True: (Tone.GOOD, "held"), False: ("", "no")}

SETTINGS = ("scheduler_type", "scheduler_name", "scheduler_timeout")


class BackendForm(DocumentForm):
    places: ClassVar = {
        ("k8s_namespace",): "namespace",
        **{("scheduler_settings", field): field for field in SETTINGS},
    }

    scheduler_name = forms.CharField(
        required=False,
        max_length=253,
        widget=UnfoldAdminTextInputWidget,
        help_text="schedulerName of pods; empty: the scheduler's usual one.",
    )
    tests = YamlField(empty=[], help_text="Names as YAML.")
    node_conditions = YamlField(
        empty={}, default=NodeConditionsDocument().model_dump(), help_text="As YAML: rules and prefix."
    )
    queue_settings = YamlField(
        empty={},
        help_text="As YAML: prefix, parent, parent_quota, label, node_pool_label, node_pool, for a scheduler "
        "that others use too; preempt_min_runtime, reclaim_min_runtime, preemption_delay; for those who "
        "may write a pool alone: local_queues, share_limit.",
    )
    start_barrier = YamlField(
        empty={},
        default=BarrierDocument().model_dump(),
        help_text="As YAML: enabled, image, command, limit. Empty: the installation's own image.",
    )
    revision_read = forms.IntegerField(widget=forms.HiddenInput, required=False)
    change_reason = forms.CharField(
        required=False, widget=UnfoldAdminTextInputWidget, help_text="Why; kept in the history."
    )

    class Meta:
        model = Backend
        labels: ClassVar = {
            "composite_pod_groups": "CompositePodGroup",
            "dashboard_url": "Dashboard URL",
            "grafana_url": "Grafana URL",
        }
        fields: ClassVar = [
            *COLUMNS,
            *SETTINGS,
            "name",
            "namespace",
            "node_conditions",
            "queue_settings",
            "start_barrier",
        ]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["revision_read"].initial = self.instance.revision
        if "description" in self.fields:
            self.fields["description"].widget.attrs["rows"] = 2
        if "scheduler_type" in self.fields:  # not where it is shown to read
            self.fields["scheduler_type"].widget = UnfoldAdminSelectWidget(
                choices=[(name, product_of(name)) for name in sorted(installed())]
            )


@admin.register(Backend)
class BackendAdmin(ConfigurationAdmin):
    form = BackendForm
    list_display = ("name", "enabled", "scheduler", "scheduler_version", "namespace", "glance")
    search_fields = ("name", "description")
    readonly_fields = (
        "conditions_table",
        "observed_table",
        "card_table",
        "capabilities_table",
        "revision",
        "history_table",
    )
    fieldsets = (
        (
            None,
            {
                "fields": (
                    *("name", "description", "enabled", "kubeconfig", "context", "namespace"),
                    *SETTINGS,
                )
            },
        ),
        (
            "Queues and gates",
            {
                "classes": ("collapse",),
                "fields": (
                    *("queue_settings", "start_barrier", "imex_dns_names", "composite_pod_groups"),
                    "follow_others",
                ),
            },
        ),
        ("State", {"fields": ("conditions_table", "observed_table", "revision")}),
        ("Conformance card", {"classes": ("collapse",), "fields": ("card_table",)}),
        ("Capabilities", {"classes": ("collapse",), "fields": ("capabilities_table",)}),
        (
            "Links and tests",
            {
                "classes": ("collapse",),
                "fields": ("dashboard_url", "grafana_url", "router_address", "tests", "node_conditions"),
            },
        ),
        ("History", {"classes": ("collapse",), "fields": ("history_table",)}),
        (None, {"fields": ("change_reason", "revision_read")}),
    )

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[str]:
        del request
        return (*self.readonly_fields, "name") if obj else self.readonly_fields

    def get_queryset(self, request: HttpRequest) -> Any:
        del request
        return selectors.living_backends()

    @admin.display(ordering="scheduler_type")
    def scheduler(self, backend: Backend) -> str:
        return product_of(backend.scheduler_type)

    @admin.display(description="conditions")
    def glance(self, backend: Backend) -> SafeString:
        return badges(backend)

    @admin.display(description="conditions")
    def conditions_table(self, backend: Backend) -> SafeString:
        return render_conditions(backend)

    @admin.display(description="last observed")
    def observed_table(self, backend: Backend) -> SafeString:
        scheduler = (
            f"{product_of(backend.scheduler_type)} {backend.scheduler_version or '(version not known)'}"
        )
        rows = [
            ("Scheduler", scheduler),
            ("Kubernetes", backend.kubernetes_version or "not known"),
            ("Cluster", backend.cluster_id or "not known"),
            ("Probed", _moment(backend.probed_at)),
            ("Last synced", _moment(backend.synced_at)),
        ]
        return render_table("Last observed state", ("What", "Observed"), rows)

    @admin.display(description="capabilities")
    def capabilities_table(self, backend: Backend) -> SafeString:
        rows = [
            (
                row.capability,
                row.meaning,
                row.needs or "none has it",
                render_mark(*_SUPPORT[row.is_supported]),
            )
            for row in table_of(backend)
        ]
        most = str(capabilities_of(backend).max_levels)
        levels = ("max_levels", "the most topology keys of a pool", "", most)
        return render_table(
            "Capabilities", ("Capability", "Meaning", "Needs version", "Held"), [*rows, levels]
        )

    @admin.display(description="conformance card")
    def card_table(self, backend: Backend) -> SafeString:
        rows = [
            (
                finding["name"],
                finding["purpose"] or "nothing here",
                render_mark(*_presence(finding)),
                finding["how"],
            )
            for finding in backend.card.get("findings", [])
        ]
        return render_table("Conformance card", ("Feature", "Needed for", "Found", "Evidence"), rows)

    @admin.display(description="history")
    def history_table(self, backend: Backend) -> SafeString:
        return render_history(ConfigRevision.Type.BACKEND, backend.name)

    def document(self, form: Any, formsets: Sequence[Any]) -> dict[str, Any]:
        del formsets
        cleaned = form.cleaned_data
        return {
            **{column: cleaned[column] for column in COLUMNS},
            "k8s_namespace": cleaned["namespace"],
            "scheduler_settings": {field: cleaned[field] for field in SETTINGS},
            **{field: cleaned[field] for field in ("node_conditions", "queue_settings", "start_barrier")},
        }

    def write(self, *, name: str, document: dict[str, Any], change: ConfigChange) -> Saved[Any]:
        return services.put_backend(name=name, document=document, change=change)

    def erase(self, obj: Any, *, change: ConfigChange) -> None:
        services.delete_backend(name=obj.name, change=change, force=False)


def _moment(when: datetime | None) -> str:
    return localize(when) if when else "never"


def _presence(finding: Mapping[str, Any]) -> tuple[str, str]:
    """The tone and word for a feature; a missing one is grave only if something needs it."""
    if finding["found"]:
        return Tone.GOOD, "yes"
    if finding["found"] is None:
        return Tone.UNKNOWN, "not told"
    return (Tone.BAD if finding["purpose"] else ""), "no"
