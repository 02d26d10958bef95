from django.apps import AppConfig


class WorkflowsConfig(AppConfig):
    name = "workflows"
    verbose_name = "Workflows"

    def ready(self) -> None:
        from pools import interfaces  # noqa: PLC0415 -- models are there only now
        from workflows.usage import WorkflowUsage  # noqa: PLC0415

        interfaces.fill(WorkflowUsage())
