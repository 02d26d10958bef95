from importlib import import_module

import structlog
from django.apps import AppConfig

from web.env import former_names

log = structlog.get_logger(__name__)


class WebConfig(AppConfig):
    name = "web"
    label = "web"
    verbose_name = "Access"

    def ready(self) -> None:
        for sentence in former_names():
            log.warning("setting_renamed", reason=sentence)
        import_module("web.rest.schema")
        import_module("web.database.timestamps").register()
        import_module("web.operation.rollout").register_readiness()
