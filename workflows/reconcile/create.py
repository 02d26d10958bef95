"""Bringing a group's objects into the cluster, and those of tasks that are tried again.

``touched_cluster`` is written before the first create is sent: a group without it has nothing there, and
its end needs no call. A gang that was only partly made is completed by the next look, or taken down if
the group was stopped meanwhile.
"""

from dataclasses import dataclass

from cluster.errors import NotServed
from cluster.interface import Obj
from scheduling import names
from scheduling.backends.registry import scheduler_backend
from scheduling.errors import TopologyError, UnsupportedCapability
from scheduling.sentences import count_of
from web.crashpoints import reached
from workflows.lifecycle.statuses import TaskStatus
from workflows.reconcile.apply import apply
from workflows.reconcile.domains import Pins, check_domains
from workflows.reconcile.group_reader import GroupReader, ObservedGroup, pod_group_kind
from workflows.reconcile.group_view import GroupView, TaskView
from workflows.reconcile.leased import LeasedCluster
from workflows.reconcile.outcomes import Failed, RequeueAfter, Retry
from workflows.reconcile.plan import DesiredGroup, plan_create
from workflows.services.lease import Lease
from workflows.services.record import Changes, Note, TaskMove, record

ROUNDS = 6
POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Created:
    """Everything is there; ``tasks`` are those whose pods were made."""

    tasks: tuple[TaskView, ...]


@dataclass(frozen=True, slots=True)
class TemplateWait:
    name: str


def create(
    view: GroupView, lease: Lease, cluster: LeasedCluster
) -> Created | TemplateWait | RequeueAfter | Retry | Failed:
    """Make what is missing. Raises ClusterError."""
    tasks = tuple(task for task in view.tasks if task.status == TaskStatus.PROCESSING)
    try:
        desired = desired_group(view, tasks)
    except TopologyError as error:
        return Failed(status=TaskStatus.FAILED_SERVER_ERROR, message=error.message)
    if (elsewhere := check_cluster(view, cluster)) is not None:
        return elsewhere
    try:
        return _in_rounds(view, desired, lease, cluster) or Created(tasks)
    except NotServed:
        if missing := _missing(view, cluster):
            return Retry(trouble=missing, slow=True)
        raise


def _missing(view: GroupView, cluster: LeasedCluster) -> str:
    """What the cluster lacks of the scheduler, in its backend's words; empty if its API is there."""
    kind = pod_group_kind(view.placement)
    if kind is None or cluster.serves(kind):
        return ""
    scheduler = scheduler_backend(view.placement.scheduler_type)
    try:
        scheduler.version_of(kubernetes=str(scheduler.oldest), pod_group_schema=None)
    except UnsupportedCapability as error:
        return f'Backend "{view.placement.backend}": {error.message}'
    return ""


def _in_rounds(
    view: GroupView, desired: DesiredGroup, lease: Lease, cluster: LeasedCluster
) -> TemplateWait | RequeueAfter | Retry | Failed | None:
    """Plan and carry out until everything is there (None) or something must be waited for."""
    reader = GroupReader(cluster, view.uuid, view.placement)
    fresh = not view.row.touched_cluster
    if fresh:
        record(lease, Changes(touched=cluster_uid(view, cluster)))
        view.row.touched_cluster = True
        reached("after-touched-cluster")
    if (unclear := check_domains(view, cluster)) is not None:
        return unclear
    for _ in range(ROUNDS):
        topologies = desired.topologies
        observed = (
            ObservedGroup(topologies=reader.topologies(topologies))
            if fresh
            else reader.before_create(topologies)
        )
        fresh = False
        if observed.template is not None:
            reached("after-template-seen")
        plan = plan_create(desired, observed)
        if trouble := apply(plan.steps, cluster=cluster, grace_seconds=None):
            return trouble
        if not plan.wait:
            return None  # each reply has come, so there is no need to look once more
        if not plan.steps:
            return (
                TemplateWait(plan.left[0]) if plan.wait == "template" else RequeueAfter(seconds=POLL_SECONDS)
            )
    return RequeueAfter(seconds=POLL_SECONDS)


def desired_group(view: GroupView, tasks: tuple[TaskView, ...]) -> DesiredGroup:
    """What should be there for these tasks to run. Raises TopologyError for a gang that cannot be held."""
    renderer = view.renderer
    chosen = {task.name for task in tasks}
    tries = [one for one in view.values.tasks if one.name in chosen]
    attempts = {one.attempt for one in tries}
    pins = Pins(view)
    return DesiredGroup(
        secrets=renderer.secrets(),
        compute_domain=renderer.compute_domain(),
        topologies=renderer.topologies(),
        pod_groups=tuple(
            group for attempt in sorted(attempts) for group in renderer.gangs[attempt].pod_groups
        ),
        service=renderer.service(),
        pods=tuple(_pinned(renderer.pod(one), pins.of(one)) for one in tries),
        replaced={
            names.pod(one.task_uuid, retry=one.retry_id): names.pod(one.task_uuid, retry=one.retry_id - 1)
            for one in tries
            if one.retry_id
        },
    )


def _pinned(pod: Obj, pins: dict[str, str]) -> Obj:
    if pins:
        pod["spec"]["nodeSelector"] = {**pod["spec"].get("nodeSelector", {}), **pins}
    return pod


def cluster_uid(view: GroupView, cluster: LeasedCluster) -> str:
    return view.placement.cluster_uid or cluster.kube_system_uid()


def check_cluster(view: GroupView, cluster: LeasedCluster) -> Retry | None:
    """Refuse to act in another cluster than the one the group was frozen to.

    An address that was edited may lead elsewhere; looking there would find nothing and call that gone.
    """
    want, found = view.placement.cluster_uid, cluster.kube_system_uid()
    if want and found != want:
        return Retry(
            trouble=f'Backend "{view.placement.backend}" now leads to cluster {found}, and the group belongs '
            f"to {want}: point it back.",
            slow=True,
        )
    return None


def made(view: GroupView, tasks: tuple[TaskView, ...]) -> Changes:
    """What to record once the pods of these tasks are there."""
    first = view.row.created_in_cluster_at is None
    note = Note(
        key="created",
        reason="Created",
        message=f"All objects are in the cluster, {count_of(len(tasks), 'pod')}.",
    )
    return Changes(
        tasks=[TaskMove(pk=task.pk, status=str(TaskStatus.SCHEDULING)) for task in tasks],
        group=str(TaskStatus.SCHEDULING) if view.row.status == TaskStatus.PROCESSING else "",
        created=True,
        notes=(note,) if first else (),
    )


def edits_pod_groups(view: GroupView) -> bool:
    """Whether the scheduler's pod groups can be edited while their pods run."""
    return scheduler_backend(view.placement.scheduler_type).edits_pod_groups
