"""A program on a generated client: it submits a workflow, watches it, cancels it and sees its end.

Run in an environment of its own with: address, token, pool, and a workflow on standard input.
"""

import sys
import time

from generated.api.pool import submit_workflow
from generated.api.workflow import cancel_workflow, get_workflow, list_workflows
from generated.client import AuthenticatedClient
from generated.models import Error, SubmitBody, WorkflowStatus

url, token, pool = sys.argv[1:]
client = AuthenticatedClient(base_url=url, token=token)


def watched(name: str, *, until: tuple[WorkflowStatus, ...]) -> None:
    """Print each status of the workflow once; ends with one of ``until``, or after a few minutes."""
    last = None
    for _ in range(600):
        workflow = get_workflow.sync(name, client=client)
        if workflow.status != last:
            last = workflow.status
            print(f"{name} is {last.value}", flush=True)
        if last in until:
            return
        time.sleep(0.3)
    sys.exit(f"{name} stayed {last}")


refused = submit_workflow.sync(pool, client=client, body=SubmitBody(file="workflow: {}"))
assert isinstance(refused, Error), refused
print(f"refused: {refused.error_code}")
submitted = submit_workflow.sync(pool, client=client, body=SubmitBody(file=sys.stdin.read()))
if isinstance(submitted, Error):
    sys.exit(submitted.message)
print(f"submitted {submitted.name}, {submitted.feasibility[0].verdict.value}")
watched(submitted.name, until=(WorkflowStatus.RUNNING,))
listed = list_workflows.sync(client=client, pools=[pool])
print(f"listed {', '.join(row.name for row in listed.workflows)}")
print(f"cancelling {cancel_workflow.sync(submitted.name, client=client).name}")
watched(submitted.name, until=(WorkflowStatus.FAILED_CANCELED, WorkflowStatus.COMPLETED))
