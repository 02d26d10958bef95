"""Workflow specs: YAML text in, frozen values out, every fault with its line and column."""

from workflows.spec.limits import SpecLimits
from workflows.spec.parsing import is_expensive, parse_workflow, read_workflow
from workflows.spec.reading import default_comments, defaults_of, expanded
from workflows.spec.workflow_spec import GroupSpec, Resource, TaskSpec, WorkflowSpec

__all__ = [
    "GroupSpec",
    "Resource",
    "SpecLimits",
    "TaskSpec",
    "WorkflowSpec",
    "default_comments",
    "defaults_of",
    "expanded",
    "is_expensive",
    "parse_workflow",
    "read_workflow",
]
