"""Which pods a session may reach: those of tasks that run, in pools whose administrators allow it.

Refusals have OSMO's statuses, codes and sentences where it has them.
"""

from collections.abc import Iterable

from pools.models import Pool
from scheduling import names
from scheduling.errors import Ended, Forbidden, NotFound, TooEarly
from web.policy import Action, Grants
from workflows.homes import at_home
from workflows.lifecycle.statuses import LIVE_ORDER, WORKFLOW_TERMINAL, TaskStatus, WorkflowStatus
from workflows.models import ObservedPod, Task, TaskGroup, Workflow
from workflows.sessions.tickets import PodTarget


def check_allowed(workflow: Workflow, *, setting: str) -> None:
    """Refuse unless the workflow runs in a pool with this setting. Raises Forbidden, Ended, TooEarly."""
    if not Pool.objects.filter(name=workflow.pool_name, **{setting: True}).exists():
        raise Forbidden(
            f"Pool {workflow.pool_name} does not allow this: an administrator can set {setting} on it."
        )
    if workflow.status in WORKFLOW_TERMINAL:
        raise Ended(f"Workflow {workflow.name} is not running!")
    if workflow.status != WorkflowStatus.RUNNING:
        raise TooEarly(f"Workflow {workflow.name} is not running yet...")


def may_enter(grants: Grants, *, username: str, submitted_by: str, pool: str) -> bool:
    """Whether a caller may enter tasks of this user at all: their own, or those of a pool they administer."""
    return username == submitted_by or grants.allows(Action.CONFIG_UPDATE, f"pool/{pool}")


def task_target(workflow: Workflow, name: str) -> PodTarget:
    """The pod of a running task. Raises NotFound, TooEarly."""
    rows = Task.objects.filter(group__workflow=workflow, name=name, latest=True)
    task = rows.select_related("group").first()
    if task is None:
        raise NotFound(f"Task {name[:80]} does not exist in workflow {workflow.name}!")
    if task.status not in LIVE_ORDER:
        raise NotFound(f"Task {name} is not running in workflow {workflow.name}!")
    targets = _targets(workflow, [task])
    if not targets:
        raise TooEarly(f"Task {name} is not yet running in workflow {workflow.name}!")
    return targets[0]


def group_targets(workflow: Workflow, name: str) -> list[PodTarget]:
    """The pods of a group's running tasks, one at least. Raises NotFound, TooEarly."""
    group = TaskGroup.objects.filter(workflow=workflow, name=name).first()
    if group is None:
        raise NotFound(f"Group {name[:80]} does not exist in workflow {workflow.name}!")
    tasks = list(Task.objects.filter(group=group, latest=True).select_related("group"))
    if targets := _targets(workflow, tasks):
        return targets
    if any(task.status in LIVE_ORDER for task in tasks):
        raise TooEarly(f"Tasks in group {name} of workflow {workflow.name} are not running yet...")
    raise NotFound(f"No active tasks in group {name} of workflow {workflow.name}!")


def _targets(workflow: Workflow, tasks: Iterable[Task]) -> list[PodTarget]:
    """Those that run in a pod that is there, as last observed."""
    running = [task for task in tasks if task.status == TaskStatus.RUNNING]
    pods = ObservedPod.objects.filter(
        group_uuid__in={task.group_id for task in running},
        name__in=[task.pod_name for task in running],
        absent=False,
        deleting=False,
    )
    uids = dict(at_home(pods).values_list("name", "uid"))
    return [_target(workflow, task, uids[task.pod_name]) for task in running if task.pod_name in uids]


def _target(workflow: Workflow, task: Task, uid: str) -> PodTarget:
    return PodTarget(
        workflow=str(workflow.pk),
        workflow_name=workflow.name,
        submitted_by=workflow.submitted_by,
        pool=workflow.pool_name,
        backend=task.group.backend_id,
        group=str(task.group_id),
        task=task.name,
        retry=task.retry_id,
        namespace=task.group.placement["namespace"],
        pod=task.pod_name,
        uid=uid,
        container=names.container(task.name),
    )
