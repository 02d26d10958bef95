from django.apps import AppConfig


class WebConfig(AppConfig):
    name = "osmo_topology.web"
    label = "web"
    verbose_name = "Access"
