from django.apps import AppConfig


class PoolsConfig(AppConfig):
    name = "pools"
    verbose_name = "Pools"

    def ready(self) -> None:
        from pools.services import health  # noqa: PLC0415 -- after the apps are loaded

        health.register_findings()
