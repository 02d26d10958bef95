"""The shape of the service-wide limits on workflows (configuration of type WORKFLOW)."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from pools.documents.reading import Document, Line
from pools.values.durations import parse_duration


def _duration(text: str) -> str:
    parse_duration(text)
    return text


DurationText = Annotated[Line, AfterValidator(_duration)]

READ_ONLY = frozenset({"revision", "warnings"})


class WorkflowInfoDocument(Document):
    max_name_length: Annotated[int, Field(ge=1, le=64)] = 64


class UserLimitsDocument(Document):
    """What one user may have at a time, over all pools; null is no limit."""

    max_num_workflows: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    max_num_tasks: Annotated[int, Field(ge=1, le=1_000_000)] | None = None


class WorkflowConfigDocument(Document):
    """Limits and default timeouts; a pool's own timeouts go before these."""

    max_num_tasks: Annotated[int, Field(ge=1, le=100_000)] = 10_000
    max_num_dependencies: Annotated[int, Field(ge=0, le=100_000)] = 10_000
    max_retry_per_task: Annotated[int, Field(ge=0, le=1000)] = 0
    max_object_bytes: Annotated[int, Field(ge=10_000, le=1_500_000)] = 1_048_576
    default_exec_timeout: DurationText = "60d"
    default_queue_timeout: DurationText = "60d"
    max_exec_timeout: DurationText = "60d"
    max_queue_timeout: DurationText = "60d"
    max_pod_restart_limit: DurationText = "30m"
    max_log_lines: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    max_error_log_lines: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    max_event_log_lines: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    workflow_info: WorkflowInfoDocument = WorkflowInfoDocument()
    user_workflow_limits: UserLimitsDocument = UserLimitsDocument()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowLimits:
    """The limits as values; timeouts in seconds."""

    max_num_tasks: int
    max_num_dependencies: int
    max_retry_per_task: int
    max_object_bytes: int
    default_exec_timeout: float
    default_queue_timeout: float
    max_exec_timeout: float
    max_queue_timeout: float
    max_pod_restart_limit: float
    max_log_lines: int
    max_error_log_lines: int
    max_event_log_lines: int
    max_name_length: int
    user_workflows: int | None
    user_tasks: int | None

    @classmethod
    def of(cls, document: WorkflowConfigDocument) -> "WorkflowLimits":
        return cls(
            max_num_tasks=document.max_num_tasks,
            max_num_dependencies=document.max_num_dependencies,
            max_retry_per_task=document.max_retry_per_task,
            max_object_bytes=document.max_object_bytes,
            default_exec_timeout=parse_duration(document.default_exec_timeout),
            default_queue_timeout=parse_duration(document.default_queue_timeout),
            max_exec_timeout=parse_duration(document.max_exec_timeout),
            max_queue_timeout=parse_duration(document.max_queue_timeout),
            max_pod_restart_limit=parse_duration(document.max_pod_restart_limit),
            max_log_lines=document.max_log_lines,
            max_error_log_lines=document.max_error_log_lines,
            max_event_log_lines=document.max_event_log_lines,
            max_name_length=document.workflow_info.max_name_length,
            user_workflows=document.user_workflow_limits.max_num_workflows,
            user_tasks=document.user_workflow_limits.max_num_tasks,
        )
