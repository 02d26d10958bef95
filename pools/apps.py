from django.apps import AppConfig


class PoolsConfig(AppConfig):
    name = "pools"
    verbose_name = "Pools"

    def ready(self) -> None:
        from django.conf import settings  # noqa: PLC0415 -- after the apps are loaded

        from cluster import configured_files  # noqa: PLC0415
        from pools.services import health  # noqa: PLC0415

        configured_files.confine(settings.ENV.kubeconfig_paths)
        health.register_findings()
