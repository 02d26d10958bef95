from importlib import import_module

from django.apps import AppConfig


class WebConfig(AppConfig):
    name = "osmo_topology.web"
    label = "web"
    verbose_name = "Access"

    def ready(self) -> None:
        import_module("osmo_topology.web.schema")
