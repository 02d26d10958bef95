"""Addresses of workflows, without a trailing slash as OSMO's client writes them."""

from django.urls import path

from workflows.api import views

urlpatterns = [
    path("api/pool/<str:pool>/workflow", views.SubmitView.as_view()),
    path("api/pool/<str:pool>/workflow/<str:workflow_id>/restart", views.RestartView.as_view()),
    path("api/workflow", views.WorkflowListView.as_view()),
    path("api/workflow/<str:workflow_id>", views.WorkflowView.as_view()),
    path("api/workflow/<str:workflow_id>/spec", views.SpecView.as_view()),
    path("api/workflow/<str:workflow_id>/events", views.EventsView.as_view()),
    path("api/workflow/<str:workflow_id>/logs", views.LogsView.as_view()),
    path("api/workflow/<str:workflow_id>/error_logs", views.ErrorLogsView.as_view()),
    path("api/workflow/<str:workflow_id>/cancel", views.CancelView.as_view()),
]
