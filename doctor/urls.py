"""Addresses of the consistency check."""

from django.urls import path

from doctor.api import AuditsView, AuditView, ConsistencyChecksView, ConsistencyCheckView

urlpatterns = [
    path("api/doctor", ConsistencyChecksView.as_view()),
    path("api/doctor/<str:check_id>", ConsistencyCheckView.as_view()),
    path("api/audit", AuditsView.as_view()),
    path("api/audit/<str:check_id>", AuditView.as_view()),
]
