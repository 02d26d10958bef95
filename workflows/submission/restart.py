"""Running a finished workflow again: a new workflow of the same spec, checked against the pool as it is now.

What a restart keeps: the spec as it was parsed, priority, labels, variables laid over. What it makes anew:
everything that was frozen of the pool, every check and every limit. Groups that COMPLETED are carried over as
such and not run again, so those that wait for them start at once; of a workflow that COMPLETED as a whole all
groups run again, for else there would be nothing to do. A workflow that lives is not restarted: two of it
would do the same work twice.

Whoever may read a workflow and submit to a pool may run it there, in another pool than its own too.
"""

from dataclasses import replace
from typing import Any

from django.contrib.auth.models import AbstractBaseUser

from scheduling.errors import Conflict
from workflows.lifecycle.statuses import WORKFLOW_TERMINAL, TaskStatus, WorkflowStatus
from workflows.models import Workflow
from workflows.submission.request import Former, Mode
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

    Raises Conflict for one that lives, and whatever a submission raises.
    """
    if workflow.status not in WORKFLOW_TERMINAL:
        raise LiveWorkflow(workflow)
    again = resubmission(
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
    former = Former(
        name=workflow.name,
        base_name=workflow.base_name,
        number=workflow.number,
        completed=_completed(workflow),
    )
    return submit(replace(again, former=former))


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
