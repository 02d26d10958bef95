"""Writes of the service-wide limits on workflows."""

from collections.abc import Mapping
from typing import Any

from pools import selectors
from pools.checks.limits import check_workflow_config
from pools.documents.reading import beside, merged, read
from pools.documents.workflow import READ_ONLY, WorkflowConfigDocument
from pools.models import ConfigRevision, ServiceConfig
from pools.services.recording import ConfigChange, configuration_change, expect, record, refuse

WORKFLOW = ConfigRevision.Type.WORKFLOW


LimitsAtRevision = tuple[WorkflowConfigDocument, int]
"""The limits, and their revision; 0 before the first change."""


def put_workflow_config(*, document: Any, change: ConfigChange) -> LimitsAtRevision:
    """Replace all limits; those left out take their defaults."""
    with configuration_change(change):
        expect(ServiceConfig.objects.filter(config_type=WORKFLOW).first(), change)
        return _save(document, change=change)


def patch_workflow_config(*, changes: Any, change: ConfigChange) -> LimitsAtRevision:
    """Change single limits; null resets one."""
    with configuration_change(change):
        expect(ServiceConfig.objects.filter(config_type=WORKFLOW).first(), change)
        if isinstance(changes, Mapping):
            changes = merged(selectors.workflow_config()[0].model_dump(), changes)
        return _save(changes, change=change)


def _save(written: Any, *, change: ConfigChange) -> LimitsAtRevision:
    document, faults = read(WorkflowConfigDocument, written, path=(), read_only=READ_ONLY)
    if document is not None:
        faults += beside(faults, check_workflow_config(document))
    refuse(faults)
    if document is None:
        raise AssertionError("unreachable: a document that cannot be read has faults")
    before, revision = selectors.workflow_config()
    if revision and document == before:
        return document, revision
    content = document.model_dump()
    revision = record(config_type=WORKFLOW, name="workflow", content=content, change=change)
    ServiceConfig.objects.update_or_create(
        config_type=WORKFLOW, defaults={"content": content, "revision": revision}
    )
    return document, revision
