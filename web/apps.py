from importlib import import_module

from django.apps import AppConfig


class WebConfig(AppConfig):
    name = "web"
    label = "web"
    verbose_name = "Access"

    def ready(self) -> None:
        import_module("web.database.timestamps").register()
        import_module("web.operation.rollout").register_readiness()
