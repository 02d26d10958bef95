"""Creating a group's objects in the cluster, and those of tasks that are tried again.

``touched_cluster`` is written before the first create is sent: a group without it has no object there, and
its end needs no call. A gang that was created in part is completed by the next reconciliation, or taken down
if the group was stopped meanwhile.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cluster.errors import NotServed
from cluster.interface import Obj
from cluster.kinds import POD, SECRET
from scheduling import names
from scheduling.backends.registry import scheduler_backend
from scheduling.errors import TopologyError, UnsupportedCapability
from scheduling.sentences import count_of
from web.crashpoints import reached
from workflows.lifecycle.statuses import TaskStatus
from workflows.reconcile.apply import apply, create_objects
from workflows.reconcile.domains import Pins, check_domains, pins_text
from workflows.reconcile.group_reader import GroupReader, LiveGroup, pod_group_kind
from workflows.reconcile.group_view import GroupView, TaskView
from workflows.reconcile.leased import LeasedCluster, LogArchive
from workflows.reconcile.lost_pods import PodsAway, pods_away
from workflows.reconcile.outcomes import Failed, RequeueAfter, Retry
from workflows.reconcile.plan import Create, DesiredGroup, GroupPlan, plan_create
from workflows.services.lease import Lease
from workflows.services.record import Change, ClusterContact, Creation, GroupMove, Note, TaskMove, record
from workflows.values.observation import PINS_ANNOTATION
from workflows.values.placement import TaskTry

ROUNDS = 6
POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Created:
    """All objects exist; ``tasks`` are those whose pods were created."""

    tasks: tuple[TaskView, ...]


@dataclass(frozen=True, slots=True)
class TemplateWait:
    """NVIDIA's controller has not created this claim template yet."""

    name: str


@dataclass(frozen=True, slots=True)
class NodeWait:
    """Pods of earlier tries do not end, because their nodes are away; says what a person can do."""

    sentence: str


def create(
    view: GroupView, lease: Lease, cluster: LeasedCluster, archive: LogArchive
) -> Created | TemplateWait | NodeWait | RequeueAfter | Retry | Failed:
    """Create the missing objects. Raises ClusterError."""
    tasks = tuple(task for task in view.tasks if task.status == TaskStatus.PROCESSING)
    try:
        desired = desired_group(view, tasks)
    except TopologyError as error:
        return Failed(status=TaskStatus.FAILED_SERVER_ERROR, message=error.message)
    if (elsewhere := check_cluster(view, cluster)) is not None:
        return elsewhere
    try:
        return _in_rounds(view, desired, lease, cluster, archive) or Created(tasks)
    except NotServed:
        if message := _missing_api(view, cluster):
            return Retry(trouble=message, slow=True)
        raise


def _missing_api(view: GroupView, cluster: LeasedCluster) -> str:
    """Say which API of the scheduler the cluster does not serve; empty if it serves all."""
    kind = pod_group_kind(view.placement)
    if kind is None or cluster.serves(kind):
        return ""
    scheduler = scheduler_backend(view.placement.scheduler_type)
    try:
        version = view.placement.scheduler_version or str(scheduler.oldest)
        scheduler.version_of(kubernetes=version, pod_group_schema=None)
    except UnsupportedCapability as error:
        return f'Backend "{view.placement.backend}": {error.message}'
    return ""


def _in_rounds(
    view: GroupView, desired: DesiredGroup, lease: Lease, cluster: LeasedCluster, archive: LogArchive
) -> TemplateWait | NodeWait | RequeueAfter | Retry | Failed | None:
    """Plan and apply until all objects exist (None) or a round has to wait."""
    reader = GroupReader(cluster, view.uuid, view.placement)
    fresh = not view.row.touched_cluster
    if fresh:
        record(lease, [ClusterContact(cluster_uid(view, cluster))])
        view.row.touched_cluster = True
        reached("after-touched-cluster")
    if (unclear := check_domains(view, cluster)) is not None:
        return unclear
    for _ in range(ROUNDS):
        topologies = desired.topologies
        observed = (
            LiveGroup(topologies=reader.topologies(topologies)) if fresh else reader.before_create(topologies)
        )
        fresh = False
        if observed.template is not None:
            reached("after-template-seen")
        plan = plan_create(desired, observed)
        away = pods_away(view, {name: pod for name, pod in observed.pods.items() if name in plan.remaining})
        steps = (*plan.steps, *away.steps(namespace=view.placement.namespace))
        if failure := apply(steps, cluster=cluster, archive=archive, grace_seconds=None):
            return failure
        if not plan.wait:
            return None  # each reply has come, so there is no need to list once more
        if not steps:
            return _wait(plan, away)
    return RequeueAfter(seconds=POLL_SECONDS)


def _wait(plan: GroupPlan, away: PodsAway) -> TemplateWait | NodeWait | RequeueAfter:
    if plan.wait == "template":
        return TemplateWait(plan.remaining[0])
    return NodeWait(away.sentence) if away.sentence else RequeueAfter(seconds=POLL_SECONDS)


def desired_group(view: GroupView, tasks: tuple[TaskView, ...]) -> DesiredGroup:
    """The objects that these tasks need. Raises TopologyError for a gang that no scheduler can place."""
    renderer = view.renderer
    task_names = {task.name for task in tasks}
    tries = [task_try for task_try in view.values.tasks if task_try.name in task_names]
    generations = {task_try.generation for task_try in tries}
    pins = Pins(view)
    ended = ended_tasks(view)
    return DesiredGroup(
        secrets=renderer.secrets(),
        compute_domain=renderer.compute_domain(),
        topologies=renderer.topologies(),
        pod_groups=tuple(
            group for generation in sorted(generations) for group in renderer.gangs[generation].pod_groups
        ),
        service=renderer.service(),
        pods=tuple(
            _pinned(renderer.pod(task_try, ended=ended), pins.of(task_try), task_try) for task_try in tries
        ),
        replaced={
            names.pod(task_try.task_uuid, retry=task_try.retry_id): names.pod(
                task_try.task_uuid, retry=task_try.retry_id - 1
            )
            for task_try in tries
            if task_try.replaces
        },
    )


def create_pods_again(
    view: GroupView, tasks: Sequence[TaskView], cluster: LeasedCluster
) -> Retry | Failed | None:
    """Create pods after their Secrets, of which a pod of an earlier release may have had others."""
    desired = desired_group(view, tuple(tasks))
    if failure := create_objects(Create(SECRET, desired.secrets), cluster=cluster):
        return failure
    return create_objects(Create(POD, desired.pods), cluster=cluster)


def ended_tasks(view: GroupView) -> frozenset[str]:
    """The tasks that have ended: they leave the group's service, and no start barrier waits for them."""
    return frozenset(task.name for task in view.tasks if not task.live)


def _pinned(pod: Obj, pins: dict[str, str], task_try: TaskTry) -> Obj:
    """Hold a pod to its peers' domain; each that may be held says so, none as ``{}``."""
    if pins:
        pod["spec"]["nodeSelector"] = {**pod["spec"].get("nodeSelector", {}), **pins}
    if task_try.replaces:
        annotations = pod["metadata"].get("annotations") or {}
        pod["metadata"]["annotations"] = {**annotations, PINS_ANNOTATION: pins_text(pins)}
    return pod


def cluster_uid(view: GroupView, cluster: LeasedCluster) -> str:
    return view.placement.cluster_uid or cluster.kube_system_uid()


def check_cluster(view: GroupView, cluster: LeasedCluster) -> Retry | None:
    """Refuse to act in another cluster than the one the group was frozen to.

    An address that was edited may lead to another cluster, whose empty lists would count as a finished
    teardown.
    """
    expected, current = view.placement.cluster_uid, cluster.kube_system_uid()
    if expected and current != expected:
        return Retry(
            trouble=f'Backend "{view.placement.backend}" now leads to cluster {current}, and the group '
            f"belongs to {expected}: point it back.",
            slow=True,
        )
    return None


def created_changes(view: GroupView, tasks: tuple[TaskView, ...]) -> list[Change]:
    """What to record once the pods of these tasks are there."""
    changes: list[Change] = [TaskMove(pk=task.pk, status=str(TaskStatus.SCHEDULING)) for task in tasks]
    if view.status == TaskStatus.PROCESSING:
        changes.append(GroupMove(status=str(TaskStatus.SCHEDULING)))
    changes.append(Creation())
    if view.row.created_in_cluster_at is None:
        message = f"All objects are in the cluster, {count_of(len(tasks), 'pod')}."
        number = view.row.attempt_number
        key = "created" if number == 1 else f"created:{number}"
        changes.append(Note(key=key, reason="Created", message=message))
    return changes


def edits_pod_groups(view: GroupView) -> bool:
    """Whether the scheduler's pod groups can be edited while their pods run."""
    return scheduler_backend(view.placement.scheduler_type).edits_pod_groups
