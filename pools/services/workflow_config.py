"""Writes of the service-wide limits on workflows."""

from collections.abc import Mapping
from typing import Any

from pools import selectors
from pools.checks import check_workflow_config
from pools.documents.reading import merged, read
from pools.documents.workflow import READ_ONLY, WorkflowConfigDocument
from pools.models import ConfigRevision, ServiceConfig
from pools.services.recording import Change, configuration_change, record, refuse

WORKFLOW = ConfigRevision.Type.WORKFLOW


def put_workflow_config(*, document: Any, change: Change) -> int:
    """Replace the limits whole, what is left out by its default; returns the revision."""
    with configuration_change():
        return _save(document, change=change)


def patch_workflow_config(*, changes: Any, change: Change) -> int:
    """Change single limits; null resets one. Returns the revision."""
    with configuration_change():
        if isinstance(changes, Mapping):
            changes = merged(selectors.workflow_config()[0].model_dump(), changes)
        return _save(changes, change=change)


def _save(written: Any, *, change: Change) -> int:
    document, faults = read(WorkflowConfigDocument, written, path=(), read_only=READ_ONLY)
    if document is not None:
        faults += check_workflow_config(document)
    refuse(faults)
    if document is None:
        raise AssertionError("unreachable: a document that cannot be read has faults")
    before, revision = selectors.workflow_config()
    if revision and document == before:
        return revision
    content = document.model_dump()
    revision = record(config_type=WORKFLOW, name="workflow", content=content, change=change)
    ServiceConfig.objects.update_or_create(
        config_type=WORKFLOW, defaults={"content": content, "revision": revision}
    )
    return revision
