"""The consistency check as a Django app, for its command and its message."""

from django.apps import AppConfig


class DoctorConfig(AppConfig):
    name = "doctor"
