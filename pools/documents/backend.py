"""The shape of a backend."""

from typing import Annotated, Any

from pydantic import Field

from pools.documents.reading import Document, Line, Text
from pools.models import Backend
from scheduling.backends.registry import installed

READ_ONLY = frozenset(
    {
        "capabilities",
        "capability_table",
        "card",
        "conditions",
        "created_date",
        "k8s_uid",
        "kubernetes_version",
        "last_heartbeat",
        "name",
        "online",
        "revision",
        "scheduler_version",
        "version",
        "warnings",
    }
)
"""What a GET of a backend shows and a write ignores (``name`` must be the backend's own)."""


class SchedulerDocument(Document):
    """``scheduler_type`` names a scheduler backend, ``scheduler_name`` is the schedulerName of pods."""

    scheduler_type: Line = "kai"
    scheduler_name: Line = ""
    scheduler_timeout: Annotated[int, Field(ge=1, le=86400)] = 30


class NodeConditionsDocument(Document):
    rules: dict[Line, Line] = {}
    prefix: Line = ""


class BackendDocument(Document):
    """The whole configuration of a backend."""

    description: Text = ""
    enabled: bool = True
    kubeconfig: Line = ""
    context: Line = ""
    k8s_namespace: Line = "osmo"
    scheduler_settings: SchedulerDocument = SchedulerDocument()
    dashboard_url: Line = ""
    grafana_url: Line = ""
    router_address: Line = ""
    tests: list[Line] = []
    node_conditions: NodeConditionsDocument = NodeConditionsDocument()


COLUMNS = tuple(
    name
    for name in BackendDocument.model_fields
    if name not in {"k8s_namespace", "scheduler_settings", "node_conditions"}
)
"""Fields of a backend that are columns of the same name and meaning."""


def write(document: BackendDocument, backend: Backend) -> None:
    """Put a document's fields into a row."""
    for name in COLUMNS:
        setattr(backend, name, getattr(document, name))
    backend.namespace = document.k8s_namespace
    backend.node_conditions = document.node_conditions.model_dump()
    settings = document.scheduler_settings
    backend.scheduler_type = settings.scheduler_type
    backend.scheduler_name = settings.scheduler_name or default_name(settings.scheduler_type)
    backend.scheduler_timeout = settings.scheduler_timeout


def default_name(scheduler_type: str) -> str:
    """``schedulerName`` of pods where none is given; empty for a scheduler that is not installed."""
    scheduler = installed().get(scheduler_type)
    return scheduler.scheduler_name if scheduler else ""


def document_of(backend: Backend) -> dict[str, Any]:
    """The document of a saved backend."""
    return {
        **{name: getattr(backend, name) for name in COLUMNS},
        "k8s_namespace": backend.namespace,
        "scheduler_settings": {
            "scheduler_type": backend.scheduler_type,
            "scheduler_name": backend.scheduler_name,
            "scheduler_timeout": backend.scheduler_timeout,
        },
        "node_conditions": {"rules": {}, "prefix": "", **backend.node_conditions},
    }
