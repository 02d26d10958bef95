"""Submitting a workflow's spec once more, by its name or uuid, as if its text had been sent again.

Taken over are the spec as it was parsed, so that what its template rendered does not change, the template to
show, labels, variables laid over, and the priority; what the request names goes over them. Everything is
checked anew. Unlike a restart it does not matter how the workflow stands, and nothing of it is carried over.
"""

from django.contrib.auth.models import AbstractBaseUser

from workflows.models import Workflow
from workflows.submission.request import Mode, SubmissionRequest


def resubmission(
    workflow: Workflow,
    *,
    pool_name: str,
    user: AbstractBaseUser,
    priority: str | None,
    labels: tuple[str, ...],
    env_vars: tuple[str, ...],
    mode: Mode,
    idempotency_key: str | None,
    request_id: str,
    force_infeasible: bool = False,
) -> SubmissionRequest:
    """The submission of a workflow's spec, with what the request names over what it had."""
    return SubmissionRequest(
        pool_name=pool_name,
        text=workflow.spec,
        variables=(),
        string_variables=(),
        user=user,
        priority=priority or workflow.priority,
        labels=(*(f"{key}={value}" for key, value in workflow.labels.items()), *labels),
        env_vars=(*workflow.env_vars, *env_vars),
        mode=mode,
        uploaded_template=workflow.template_spec,
        idempotency_key=idempotency_key,
        request_id=request_id,
        rendered_before=True,
        force_infeasible=force_infeasible,
    )
