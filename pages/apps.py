"""The pages as a Django app, for its templates and static files."""

from django.apps import AppConfig


class PagesConfig(AppConfig):
    name = "pages"
