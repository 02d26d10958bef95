"""The commands that lead into a running task, for who may enter it: a page shows nothing that is refused."""

import shlex

from pages.workflows.tasks import TaskPage
from pools.models import Pool
from web.policy import Action, Grants
from workflows.lifecycle.statuses import TaskStatus
from workflows.models import Workflow
from workflows.sessions.targets import may_enter


def session_commands(
    workflow: Workflow, tasks: TaskPage, grants: Grants, *, username: str
) -> tuple[str, ...]:
    """Those for the first running task that the page shows. One query at most."""
    pool = workflow.pool_name
    task = next((row.name for row in tasks.rows if row.badge.status == TaskStatus.RUNNING), None)
    if task is None or not may_enter(
        grants, username=username, submitted_by=workflow.submitted_by, pool=pool
    ):
        return ()
    allowed = Pool.objects.filter(name=pool).values_list("allow_exec", "allow_port_forward").first()
    of_exec, of_ports = allowed or (False, False)
    place = shlex.join([workflow.name, task])
    commands = []
    if of_exec and grants.allows(Action.WORKFLOW_EXEC, f"pool/{pool}"):
        commands.append(f"osmo-topology exec {place} -it")
    if of_ports and grants.allows(Action.WORKFLOW_PORT_FORWARD, f"pool/{pool}"):
        commands.append(f"osmo-topology port-forward {place} 8888")
    return tuple(commands)
