"""Submitting a workflow's spec once more, by its name or uuid, as if its text had been sent again.

A resubmission takes over the spec as it was parsed, so that its template is not rendered differently, the
template to display, labels, variables laid over, and the priority; the request's own values replace them.
Every check is repeated. Unlike a restart, it does not depend on the workflow's status and carries no group
over.
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
    expanded: bool = False,
    force_infeasible: bool = False,
    pools: tuple[str, ...] = (),
) -> SubmissionRequest:
    """A request to submit a workflow's spec, with the new request's values over the workflow's own."""
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
        expanded=expanded,
        force_infeasible=force_infeasible,
        pools=pools,
    )
