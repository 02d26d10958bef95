"""The admin of pools, with their ordered topology keys and their platforms."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString
from unfold.admin import StackedInline
from unfold.decorators import action
from unfold.widgets import UnfoldAdminTextInputWidget

from pools import selectors, services
from pools.admin.base import ConfigurationAdmin, StaffWriting, render_conditions
from pools.admin.desk import badges
from pools.admin.forms import DocumentForm, RowForm, RowFormSet, YamlField
from pools.admin.key_editor import KeyEditor, TopologyKeyInline
from pools.admin.preview import Previewing
from pools.admin.rename import RenameAction
from pools.admin.revision import render_history
from pools.conditions.advice import advice_of, concerns
from pools.documents.pool import COLUMNS, PLATFORM_COLUMNS, ResourcesDocument
from pools.documents.recovery import RecoveryDocument
from pools.interfaces import usage
from pools.models import ConfigRevision, Platform, Pool
from pools.services import ConfigChange, Saved

MAX_DOMAINS = 20
SELECTOR = "Node labels as YAML, such as: example.com/pool: train"
TOLERATIONS = "Tolerations as YAML, such as: [{key: nvidia.com/gpu, operator: Exists}]"
TEMPLATES = "Names of pod templates as YAML, such as: [shm, tolerate]; later templates override earlier ones."
VARIABLES = "Default amounts for tasks without their own, as YAML, such as: USER_CPU: 4"
DEFAULT_TOPOLOGY = (
    "What groups of two or more tasks with GPUs get that name no key, as YAML, such as: {pack: true}."
)
MOUNTS = "Paths as YAML, such as: [/data, '/scratch:/mnt']"


class PoolForm(DocumentForm):
    rows_under = ("topology_keys", "platforms")

    node_selector = YamlField(empty={}, help_text=f"{SELECTOR}. Empty: all nodes of the backend.")
    tolerations = YamlField(empty=[], help_text=f"{TOLERATIONS}.")
    shared_credentials = YamlField(
        empty=[],
        help_text="Secrets of the backend's namespace, as YAML; all tasks of this pool may read them.",
    )
    common_pod_template = YamlField(empty=[], help_text=TEMPLATES)
    common_default_variables = YamlField(empty={}, help_text=VARIABLES)
    default_exit_actions = YamlField(empty={}, help_text="As YAML, such as: RESCHEDULE: 1-3,7")
    default_topology = YamlField(empty=None, help_text=f"{DEFAULT_TOPOLOGY} Empty: nothing.")
    recovery = YamlField(
        empty={},
        default=RecoveryDocument().model_dump(exclude_none=True),
        help_text="What follows when a task group loses a task, as YAML, such as: "
        "{preempted: requeue, node_lost: task, failed: fail, max: 3}. Empty: the service's defaults.",
    )
    resources = YamlField(
        empty={},
        default=ResourcesDocument().model_dump(),
        help_text="As YAML, such as: gpu: {guarantee: 8, maximum: -1, weight: 1}; -1 is unlimited.",
    )
    notify = YamlField(
        empty=[],
        help_text="Targets of news of its workflows as YAML, such as: "
        "[{webhook: https://hooks.example.org/osmo, secret: ops, kinds: [ended]}, {email: ops@example.org}]",
    )
    revision_read = forms.IntegerField(widget=forms.HiddenInput, required=False)
    change_reason = forms.CharField(
        required=False, widget=UnfoldAdminTextInputWidget, help_text="Why; kept in the history."
    )

    class Meta:
        model = Pool
        labels: ClassVar = {
            "nvlink": "NVLink",
            "compute_domains": "ComputeDomains for",
            "topology_name": "Topology object",
        }
        fields: ClassVar = [
            *COLUMNS,
            "name",
            "backend",
            "tolerations",
            "resources",
            "recovery",
            "default_topology",
            "notify",
        ]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["revision_read"].initial = self.instance.revision
        if "description" in self.fields:  # not where it is shown to read
            self.fields["description"].widget.attrs["rows"] = 2


class PlatformForm(RowForm):
    node_selector = YamlField(empty={}, help_text=f"{SELECTOR}. Adds to the pool's.")
    tolerations = YamlField(empty=[], help_text=f"{TOLERATIONS}.")
    allowed_mounts = YamlField(empty=[], help_text=f"{MOUNTS}.")
    default_mounts = YamlField(empty=[], help_text=f"{MOUNTS}.")
    override_pod_template = YamlField(empty=[], help_text=f"{TEMPLATES} They override the pool's.")
    default_variables = YamlField(empty={}, help_text=f"{VARIABLES}. They override the pool's.")
    default_topology = YamlField(empty=None, help_text=f"{DEFAULT_TOPOLOGY} Empty: as the pool.")

    class Meta:
        model = Platform
        labels: ClassVar = {"nvlink": "NVLink"}
        fields: ClassVar = ["name", *PLATFORM_COLUMNS, "tolerations", "default_topology"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "description" in self.fields:
            self.fields["description"].widget.attrs["rows"] = 4

    def _post_clean(self) -> None:
        """Build no row: the services write the rows anew."""


class PlatformFormSet(RowFormSet):
    under = "platforms"

    def row_of(self, step: str | int) -> Any:
        return next((form for form in self.rows() if form.cleaned_data.get("name") == step), None)

    def clean(self) -> None:
        """Refuse a repeated name, which a document could not even express."""
        super().clean()
        if any(self.errors):
            return
        names: set[str] = set()
        for form in self.rows():
            name = form.cleaned_data["name"]
            if name in names:
                form.add_error("name", f'There is a platform "{name}" already.')
            names.add(name)


def _folded(heading: str, *fields: str) -> tuple[str, dict[str, Any]]:
    """A group of fields that is folded while all of them have their defaults."""
    return heading, {"classes": ("collapse",), "fields": fields}


class PlatformInline(StaffWriting, StackedInline):  # type: ignore[misc]  # unfold has no types
    model = Platform
    form = PlatformForm
    formset = PlatformFormSet
    extra = 0
    fieldsets = (
        (None, {"fields": (("name", "nvlink"), ("description", "node_selector"))}),
        _folded(
            "More of this platform",
            "tolerations",
            "host_network_allowed",
            "privileged_allowed",
            "allowed_mounts",
            "default_mounts",
            "override_pod_template",
            "default_variables",
            "default_topology",
        ),
    )


class NVLinkFilter(admin.BooleanFieldListFilter):
    """The filter under the product's own name; a label of the model would need a migration."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.title = "NVLink"


@admin.register(Pool)
class PoolAdmin(RenameAction, Previewing, KeyEditor, ConfigurationAdmin):
    change_form_template = "pools/admin/pool_form.html"
    actions_detail = ("rename", "what_if")
    form = PoolForm
    inlines = (TopologyKeyInline, PlatformInline)
    list_display = ("name", "backend", "has_nvlink", "topology", "enable_maintenance", "revision", "glance")
    list_filter = ("backend", ("nvlink", NVLinkFilter))
    search_fields = ("name", "description")
    readonly_fields = ("revision", "compute_domains_table", "conditions_table", "news_table", "history_table")
    fieldsets = (
        (None, {"fields": (("name", "backend"), "description")}),
        # the editors of keys and platforms come here
        ("NVLink", {"fields": ("nvlink", "compute_domains", "compute_domains_table")}),
        ("State", {"fields": ("enable_maintenance", "conditions_table", "revision")}),
        _folded("Nodes", "node_selector", "tolerations", "avoid_suspect_nodes"),
        _folded(
            "Topology",
            "default_topology",
            "topology_source",
            "topology_name",
            "local_queue",
            "unsupported_preferred",
            "infeasible",
            "free_preferences_after",
        ),
        _folded(
            "Pods", "default_platform", "common_pod_template", "common_default_variables", "download_type"
        ),
        _folded("Access", "shared_credentials", "allow_exec", "allow_port_forward"),
        _folded(
            "Quota and limits",
            "resources",
            "max_num_workflows",
            "max_num_tasks",
            "max_num_workflows_per_user",
            "max_num_tasks_per_user",
        ),
        _folded(
            "Time",
            "default_exec_timeout",
            "max_exec_timeout",
            "default_queue_timeout",
            "max_queue_timeout",
            "max_grace_period_seconds",
            "ended_workflow_days",
        ),
        _folded(
            "Losses and recovery",
            "node_lost_after",
            "force_lost_pods",
            "default_exit_actions",
            "recovery",
            "max_recoveries",
        ),
        _folded("News", "notify", "news_table"),
        _folded("History", "history_table"),
        (None, {"fields": ("change_reason", "revision_read")}),
    )

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[str]:
        del request
        return (*self.readonly_fields, "name") if obj else self.readonly_fields

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).select_related("backend").prefetch_related("topology_keys")

    def formfield_for_foreignkey(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        if db_field.name == "backend":
            kwargs["queryset"] = selectors.living_backends().order_by("name")
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], **kwargs: Any) -> Any:
        if pool := kwargs.get("obj"):
            advice = advice_of(pool)
            context |= {"advice": advice, "pool_concerns": concerns(advice)}
        return super().render_change_form(request, context, **kwargs)

    @action(description="What if", url_path="ask-what-if")  # type: ignore[untyped-decorator]  # unfold
    def what_if(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Lead to the page that predicts what other nodes or keys would mean for waiting groups."""
        del request
        return redirect(reverse("pool_what_if", args=[object_id]))

    @admin.display(description="NVLink", boolean=True, ordering="nvlink")
    def has_nvlink(self, pool: Pool) -> bool:
        return pool.nvlink

    @admin.display(description="topology")
    def topology(self, pool: Pool) -> str:
        return " → ".join(row.key for row in pool.topology_keys.all()) or "none"

    @admin.display(description="conditions")
    def glance(self, pool: Pool) -> SafeString:
        return badges(pool)

    @admin.display(description="ComputeDomains")
    def compute_domains_table(self, pool: Pool) -> SafeString:
        """ComputeDomains of the pool's workflows, also those that outlive the NVLink flag."""
        domains = usage().compute_domains(pool.name, most=MAX_DOMAINS)
        return render_to_string(
            "pools/admin/compute_domains.html", {"domains": domains, "pool": pool, "now": timezone.now()}
        )

    @admin.display(description="conditions")
    def conditions_table(self, pool: Pool) -> SafeString:
        return render_conditions(pool)

    @admin.display(description="not sent")
    def news_table(self, pool: Pool) -> SafeString:
        problems = usage().news_problems([pool.name])[pool.name] if pool.notify else ()
        return render_to_string("pools/admin/news.html", {"problems": problems})

    @admin.display(description="history")
    def history_table(self, pool: Pool) -> SafeString:
        return render_history(ConfigRevision.Type.POOL, pool.name)

    def document(self, form: Any, formsets: Sequence[Any]) -> dict[str, Any]:
        cleaned = form.cleaned_data
        keys, platforms = formsets
        return {
            **{column: cleaned[column] for column in COLUMNS},
            "download_type": cleaned["download_type"] or None,
            "backend": cleaned["backend"].name,
            "tolerations": cleaned["tolerations"],
            "notify": cleaned["notify"],
            "resources": cleaned["resources"],
            "recovery": cleaned["recovery"],
            "default_topology": cleaned["default_topology"],
            "topology_keys": keys.documents(),
            "platforms": {
                row.cleaned_data["name"]: {
                    field: row.cleaned_data[field]
                    for field in (*PLATFORM_COLUMNS, "tolerations", "default_topology")
                }
                for row in platforms.rows()
            },
        }

    def write(self, *, name: str, document: dict[str, Any], change: ConfigChange) -> Saved[Any]:
        return services.put_pool(name=name, document=document, change=change)

    def erase(self, obj: Any, *, change: ConfigChange) -> None:
        services.delete_pool(name=obj.name, change=change, force=False)
