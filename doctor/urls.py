"""Addresses of the consistency check."""

from django.urls import path

from doctor.api import ConsistencyChecksView, ConsistencyCheckView

urlpatterns = [
    path("api/doctor", ConsistencyChecksView.as_view()),
    path("api/doctor/<str:check_id>", ConsistencyCheckView.as_view()),
]
