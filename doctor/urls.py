"""Addresses of the consistency check."""

from django.urls import path

from doctor.api import AuditsView, AuditView

urlpatterns = [
    path("api/audit", AuditsView.as_view()),
    path("api/audit/<str:audit_id>", AuditView.as_view()),
]
