"""Restarting a finished workflow: a new workflow of the same spec, checked against the pool as it is now.

A restart keeps the spec as it was parsed, the priority, the labels and the variables laid over. It freezes
the pool anew and repeats every check and every limit. Groups that COMPLETED are carried over and not run
again, so the groups that wait for them start at once; if the whole workflow COMPLETED, all its groups run
again, because otherwise there would be nothing to do. A live workflow is not restarted: both would do the
same work.

A user who may read a workflow and submit to a pool may restart it there, even in another pool than its own.
"""

from dataclasses import replace
from typing import Any

from django.contrib.auth.models import AbstractBaseUser

from scheduling.errors import Conflict
from workflows.lifecycle.statuses import WORKFLOW_TERMINAL, TaskStatus, WorkflowStatus
from workflows.models import Workflow
from workflows.submission.request import FormerWorkflow, Mode
from workflows.submission.resubmit import resubmission
from workflows.submission.submit import submit


def restart(
    workflow: Workflow,
    *,
    pool_name: str,
    user: AbstractBaseUser,
    idempotency_key: str | None,
    request_id: str,
) -> dict[str, Any]:
    """Accept a finished workflow once more; returns the reply's values.

    Raises LiveWorkflow for a workflow that has not ended, and what a submission raises.
    """
    if workflow.status not in WORKFLOW_TERMINAL:
        raise LiveWorkflow(workflow)
    request = resubmission(
        workflow,
        pool_name=pool_name,
        user=user,
        priority=None,
        labels=(),
        env_vars=(),
        mode=Mode.SUBMIT,
        idempotency_key=idempotency_key,
        request_id=request_id,
    )
    former = FormerWorkflow(
        name=workflow.name,
        base_name=workflow.base_name,
        number=workflow.number,
        completed=_completed(workflow),
    )
    return submit(replace(request, former=former))


def _completed(workflow: Workflow) -> frozenset[str]:
    if workflow.status == WorkflowStatus.COMPLETED:
        return frozenset()
    rows = workflow.groups.filter(status=TaskStatus.COMPLETED)
    return frozenset(rows.values_list("name", flat=True))


class LiveWorkflow(Conflict):
    """Only a finished workflow can be restarted."""

    def __init__(self, workflow: Workflow) -> None:
        super().__init__(
            f"Workflow {workflow.name} is {workflow.status}: only a finished workflow can be restarted. "
            "Cancel it first, or submit its spec again."
        )
        self.workflow_id = workflow.name
