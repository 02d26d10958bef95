"""Addresses of configuration and of what users see of pools. None ends in a slash, as in OSMO."""

from django.urls import path, register_converter

from pools.api import file, history, platforms, pod_templates, views
from pools.api.preflight import PreflightView
from pools.api.profile import ProfileSettingsView


class ConfigName:
    """The name of an object in an address: anything but what the database cannot compare."""

    regex = r"[^/\x00]+"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(ConfigName, "config_name")

urlpatterns = [
    path("api/configs/file", file.FileView.as_view()),
    path("api/configs/diff", history.DiffView.as_view()),
    path("api/configs/history", history.HistoryView.as_view()),
    path("api/configs/history/rollback", history.RollbackView.as_view()),
    path(
        "api/configs/history/<config_name:config_type>/revision/<config_name:revision>",
        history.RevisionView.as_view(),
    ),
    path(
        "api/configs/history/<config_name:config_type>/revision/<config_name:revision>/tags",
        history.RevisionTagsView.as_view(),
    ),
    path("api/configs/backend", views.BackendsView.as_view()),
    path("api/configs/backend/<config_name:name>", views.BackendView.as_view()),
    path(
        "api/configs/backend/<config_name:name>/suspect_nodes/<config_name:node>",
        views.SuspectNodeView.as_view(),
    ),
    path("api/configs/group_template", pod_templates.GroupTemplatesView.as_view()),
    path(
        "api/configs/group_template/<config_name:name>",
        pod_templates.GroupTemplateView.as_view(),
    ),
    path("api/configs/pod_template", pod_templates.PodTemplatesView.as_view()),
    path("api/configs/pod_template/<config_name:name>", pod_templates.PodTemplateView.as_view()),
    path("api/configs/resource_validation", pod_templates.ResourceValidationsView.as_view()),
    path(
        "api/configs/resource_validation/<config_name:name>",
        pod_templates.ResourceValidationView.as_view(),
    ),
    path("api/configs/pool", views.PoolsConfigView.as_view()),
    path("api/configs/pool/<config_name:name>", views.PoolConfigView.as_view()),
    path("api/configs/pool/<config_name:name>/platform", platforms.PlatformsView.as_view()),
    path(
        "api/configs/pool/<config_name:name>/platform/<config_name:platform>",
        platforms.PlatformView.as_view(),
    ),
    path(
        "api/configs/pool/<config_name:name>/platform/<config_name:platform>/rename",
        platforms.PlatformRenameView.as_view(),
    ),
    path("api/configs/pool/<config_name:name>/rename", platforms.PoolRenameView.as_view()),
    path("api/configs/workflow", views.WorkflowConfigView.as_view()),
    path("api/pool", views.PoolsView.as_view()),
    path("api/pool/<config_name:name>/topology", views.PoolTopologyView.as_view()),
    path("api/preflight", PreflightView.as_view()),
    path("api/profile/settings", ProfileSettingsView.as_view()),
    path("api/topology", views.TopologyView.as_view()),
]
