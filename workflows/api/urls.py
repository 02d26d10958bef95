"""Addresses of workflows, without a trailing slash as OSMO's client writes them."""

from django.urls import path

from workflows.api import (
    capacity,
    fit,
    listing,
    logs,
    news_key,
    nodes,
    others,
    outcomes,
    sessions,
    views,
    watch,
)

urlpatterns = [
    path("api/cluster/<str:backend>/waiting", others.OthersWaitingView.as_view()),
    path("api/cluster/<str:backend>/group/<str:namespace>/<str:name>", others.OneOfOthersView.as_view()),
    path("api/pool_quota", capacity.PoolQuotaView.as_view()),
    path("api/profile/news_key", news_key.NewsKeyView.as_view()),
    path("api/resources", capacity.ResourcesView.as_view()),
    path("api/resources/<str:name>", capacity.ResourceView.as_view()),
    path("api/tag", listing.TagsView.as_view()),
    path("api/task", listing.TaskListView.as_view()),
    path("api/users", listing.UsersView.as_view()),
    path("api/workflow/<str:workflow_id>/tag", listing.WorkflowTagView.as_view()),
    path("api/pool/<str:pool>/fragmentation", fit.FragmentationView.as_view()),
    path("api/pool/<str:pool>/nodes", nodes.PoolNodesView.as_view()),
    path("api/pool/<str:pool>/outcomes", outcomes.OutcomesView.as_view()),
    path("api/pool/<str:pool>/workflow", views.SubmitView.as_view()),
    path("api/pool/<str:pool>/workflow/<str:workflow_id>/restart", views.RestartView.as_view()),
    path("api/workflow", views.WorkflowListView.as_view()),
    path("api/workflow/<str:workflow_id>", views.WorkflowDetailView.as_view()),
    path("api/workflow/<str:workflow_id>/explain", views.ExplainView.as_view()),
    path("api/workflow/<str:workflow_id>/spec", views.SpecView.as_view()),
    path("api/workflow/<str:workflow_id>/events", views.EventsView.as_view()),
    path("api/workflow/<str:workflow_id>/logs", logs.LogsView.as_view()),
    path("api/workflow/<str:workflow_id>/error_logs", logs.ErrorLogsView.as_view()),
    path("api/workflow/<str:workflow_id>/watch", watch.WatchView.as_view()),
    path("api/workflow/<str:workflow_id>/exec/task/<str:task>", sessions.ExecTaskView.as_view()),
    path("api/workflow/<str:workflow_id>/exec/group/<str:group>", sessions.ExecGroupView.as_view()),
    path("api/router/exec/<str:workflow_id>/client/<str:key>", sessions.ExecSocketView.as_view()),
    path("api/workflow/<str:workflow_id>/cancel", views.CancelView.as_view()),
]
