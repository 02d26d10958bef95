"""Creating a group's objects in the cluster, and those of tasks that are tried again.

``touched_cluster`` is written before the first create is sent: a group without it has no object there, and
its end needs no call. A gang that was created in part is completed by the next reconciliation, or taken down
if the group was stopped meanwhile.

A worker may also die after it created a whole gang, before it records that. If the gang was placed since, a
pod that is missing has existed and may have run, so it is not created, nor is anything else: the steps that
follow read it as gone.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from cluster.errors import NotServed
from cluster.interface import Obj
from cluster.kinds import POD, SECRET
from pools.clusters.guard import MARK_SECONDS
from scheduling import names
from scheduling.backends.base import RoomCause, RoomLoss
from scheduling.backends.registry import scheduler_backend
from scheduling.errors import TopologyError, UnsupportedCapability
from scheduling.sentences import count_of
from web.crashpoints import reached
from workflows.lifecycle.pod_status import read_without_room
from workflows.lifecycle.statuses import TaskStatus
from workflows.manifests.group import Renderer
from workflows.reconcile.objects.apply import Applied, apply, create_objects
from workflows.reconcile.objects.domains import DomainPins, check_composites, check_domains, pins_text
from workflows.reconcile.objects.lost_pods import PodsAway, pods_away
from workflows.reconcile.objects.namespace_quotas import quota_wait
from workflows.reconcile.objects.other_queues import elsewhere
from workflows.reconcile.objects.partial_gangs import give_back, without_parts
from workflows.reconcile.objects.paused_replacements import ReplacementPause, replacement_pause
from workflows.reconcile.objects.placed_gangs import placed_together
from workflows.reconcile.objects.plan import (
    Create,
    DesiredGroup,
    GroupPlan,
    PodManifests,
    plan_create,
)
from workflows.reconcile.objects.preferred_domains import PreferredDomains
from workflows.reconcile.objects.rejoining import rejoin_changes, unplaceable
from workflows.reconcile.objects.room import (
    asks_first,
    lost_changes,
    only_pod_groups,
    read_room,
    requests,
    unknown_sentence,
    waits_by_rows,
)
from workflows.reconcile.turn import ReadAgain, StepResult, Stop, Turn
from workflows.reconcile.view.group_reader import GroupReader, LiveGroup, pod_group_kind
from workflows.reconcile.view.group_view import GroupView, TaskView
from workflows.reconcile.view.leased import LeasedCluster
from workflows.reconcile.view.outcomes import SILENT_SECONDS, Failed, RequeueAfter, Retry, look_again
from workflows.services.changes import (
    Change,
    ClusterContact,
    Creation,
    DomainOfPods,
    GroupMove,
    NewWaitingReason,
    Note,
    TaskMove,
)
from workflows.values.observation import PINS_ANNOTATION
from workflows.values.placement import TaskTry
from workflows.values.pod_changes import SENT_ANNOTATION, sent_text

ROUNDS = 6
POLL_SECONDS = 1.0
TEMPLATE_SECONDS, MOST_TEMPLATE_SECONDS = 2.0, 60.0
QUOTA_SECONDS, MOST_QUOTA_SECONDS = 2.0, 10.0
NODE_SECONDS = 10.0  # a person must act, or a node come back
REPORT_SECONDS = 3.0  # the observer reports new pods sooner, and nothing is known of them before


def create(turn: Turn) -> StepResult:
    """Create the missing objects; goes on where the gang waits for room. Raises ClusterError."""
    view = turn.view
    if turn.learned.unchosen or waits_by_rows(view):
        return turn
    tasks = tuple(task for task in view.tasks if _lacks_pod(view, task))
    pause = replacement_pause(view, tasks)
    if pause is None:
        return _create(turn, tasks)
    tasks = tuple(task for task in tasks if task.pk not in pause.tasks)
    return _create(turn, tasks) if tasks else _wait_for_pause(turn, pause)


def _lacks_pod(view: GroupView, task: TaskView) -> bool:
    """Whether a task's pod is still to be created."""
    return task.live if view.awaits_room else task.status == TaskStatus.PROCESSING


def _wait_for_pause(turn: Turn, pause: ReplacementPause) -> Stop:
    if pause.condition is not None:
        turn.record([pause.condition])
    return turn.learn(paused=pause.sentence).at(pause.until).due(within=NODE_SECONDS)


def _create(turn: Turn, tasks: tuple[TaskView, ...]) -> StepResult:
    view, cluster = turn.view, turn.cluster
    try:
        desired = desired_group(view, tasks)
    except TopologyError as error:
        return Stop(turn, Failed(status=TaskStatus.FAILED_SERVER_ERROR, message=error.message))
    if (elsewhere := check_cluster(view, cluster, within=MARK_SECONDS)) is not None:
        return Stop(turn, elsewhere)
    wait = quota_wait(view, tasks, cluster)
    if wait is not None and give_back(turn, wait.pods, cause=wait.sentence):
        waited = view.now - view.waits_since
        return Stop(
            turn.learn(quota_wait=wait), look_again(waited, first=QUOTA_SECONDS, most=MOST_QUOTA_SECONDS)
        )
    try:
        return _in_rounds(turn, _Desired(tasks, desired))
    except NotServed:
        if message := _missing_api(view, cluster):
            return Stop(turn, Retry(trouble=message, slow=True))
        raise


def _missing_api(view: GroupView, cluster: LeasedCluster) -> str:
    """Say which API of the scheduler the cluster does not serve; empty if it serves all."""
    kind = pod_group_kind(view.placement)
    if kind is None or cluster.serves(kind):
        return ""
    scheduler = scheduler_backend(view.placement.terms.scheduler_type)
    try:
        version = view.placement.terms.scheduler_version or str(scheduler.rendering.oldest)
        scheduler.rendering.version_of(kubernetes=version, pod_group_schema=None)
    except UnsupportedCapability as error:
        return f'Backend "{view.placement.terms.backend}": {error.message}'
    return ""


@dataclass(frozen=True, slots=True)
class _Desired:
    """The tasks whose pods are to be created, and the objects of the group before they have nodes."""

    tasks: tuple[TaskView, ...]
    group: DesiredGroup


def _in_rounds(turn: Turn, desired: _Desired) -> StepResult:
    """Plan and apply until all objects exist or a round has to wait."""
    view, cluster = turn.view, turn.cluster
    reader = GroupReader(cluster, view.uuid, view.placement)
    fresh = not view.row.touched_cluster
    if fresh or view.row.touched_at is None:
        turn.record([ClusterContact(cluster_uid(view, cluster))])
        view.row.touched_cluster = True
        reached("after-touched-cluster")
    if (unclear := check_composites(view) or check_domains(view, cluster)) is not None:
        return Stop(turn, unclear)
    if fresh:
        reader.note_untouched()
    for _ in range(ROUNDS):
        observed = reader.before_create(desired.group.topologies)
        if observed.template is not None:
            reached("after-template-seen")
        placed = placed_together(view, desired.tasks, observed.pods)
        plan = _plan(turn, _without(desired, placed), observed)
        if not isinstance(plan, GroupPlan):
            return plan
        away = pods_away(view, {name: pod for name, pod in observed.pods.items() if name in plan.remaining})
        steps = (*plan.steps, *away.steps(namespace=view.placement.terms.namespace))
        applied = apply(steps, cluster=cluster, archive=turn.archive, grace_seconds=None)
        if not isinstance(applied, Applied):
            return Stop(turn, without_parts(turn, applied))
        reader.note_created(step.kind for step in steps)
        if not plan.wait:
            domain = observed.domains.get(names.compute_domain(view.uuid))  # there before its template was
            gone = sum(task.name in placed and task.pod_name not in observed.pods for task in desired.tasks)
            # each reply has come: no list again
            return _record_created(turn, desired.tasks, domain_uid=domain.uid if domain else "", gone=gone)
        if not steps:
            further = _made_meanwhile(view, desired, observed, plan)
            return _record_created(turn, further) if further else _wait(turn, plan, away)
    return Stop(turn, RequeueAfter(seconds=POLL_SECONDS))


def _plan(turn: Turn, desired: _Desired, observed: LiveGroup) -> GroupPlan | ReadAgain | Stop:
    """The next steps; with the pods once the scheduler has given them room."""
    view = turn.view
    scheduler = asks_first(view.placement)
    if changes := _left_behind(view, desired, observed):
        return turn.moved(changes)
    if scheduler is None or not observed.pod_groups:
        return plan_create(desired.group, observed)
    room = read_room(view, scheduler, observed.pods, cluster=turn.cluster)
    if room.lost is not None and (end := _without_room(turn, room.lost)):
        return end
    if not all(task.name in room.nodes for task in desired.tasks):
        plan = plan_create(desired.group, observed)
        return replace(plan, remaining=room.unknown) if plan.wait == "room" else plan
    reached("room-assigned")
    return plan_create(desired_group(view, desired.tasks, nodes=room.nodes), observed)


def _without_room(turn: Turn, lost: RoomLoss) -> ReadAgain | Stop | None:
    """The end of a gang that was refused for good, or of the attempt of one without pods."""
    if lost.cause == RoomCause.REJECTED:
        reading = read_without_room(lost)
        return Stop(turn, Failed(status=reading.status, message=reading.message))
    if turn.view.row.created_in_cluster_at is not None:
        return None
    return turn.moved(lost_changes(turn.view, lost))


def _without(desired: _Desired, placed: Collection[str]) -> _Desired:
    """The objects to create but for tasks whose pods were placed: of a gang that was, nothing at all."""
    if not placed:
        return desired
    pod_names = {task.pod_name for task in desired.tasks if task.name in placed}
    rest = desired.group.pods.without(pod_names)
    group = replace(desired.group, pods=rest)
    if not rest:
        group = replace(
            group,
            secrets=(),
            compute_domain=None,
            topologies=(),
            parents=(),
            pod_groups=(),
            service=None,
            replaced={},
        )
    return replace(desired, group=group)


def _left_behind(view: GroupView, desired: _Desired, observed: LiveGroup) -> list[Change]:
    """What happens to tasks whose pods could be created now and would never be placed."""
    blocked = desired.group.blocked_pods(observed.pods)
    to_create = set(desired.group.pods.names) - blocked.keys() - observed.pods.keys()
    left_behind = unplaceable(view, [task for task in desired.tasks if task.pod_name in to_create])
    return rejoin_changes(view, left_behind, observed.pods)


def _made_meanwhile(
    view: GroupView, desired: _Desired, observed: LiveGroup, plan: GroupPlan
) -> tuple[TaskView, ...]:
    """Further tries whose pods are there: they are followed while others wait for pods of earlier tries."""
    if plan.wait != "old pods" or view.row.created_in_cluster_at is None:
        return ()
    return tuple(task for task in desired.tasks if task.pod_name in observed.pods)


def _wait(turn: Turn, plan: GroupPlan, away: PodsAway) -> Turn | Stop:
    """Say what is waited for: a claim template, room, or the end of pods of earlier tries."""
    view = turn.view
    if plan.wait == "template":
        if _comes_soon(view):
            return Stop(turn, RequeueAfter(seconds=TEMPLATE_SECONDS), is_explained=True)
        most = SILENT_SECONDS if view.observer_is_silent else MOST_TEMPLATE_SECONDS
        outcome = look_again(view.now - view.waits_since, first=TEMPLATE_SECONDS, most=most)
        return Stop(turn.learn(template=plan.remaining[0]), outcome)
    if plan.wait == "room":
        return turn.learn(node_wait=unknown_sentence(plan.remaining))
    seconds = NODE_SECONDS if away.sentence else POLL_SECONDS
    return Stop(turn.learn(node_wait=away.sentence), RequeueAfter(seconds=seconds))


def _comes_soon(view: GroupView) -> bool:
    """Whether a wait for a claim template has just begun: most end sooner than anybody looks."""
    since = view.row.touched_at or view.now
    is_new = view.row.created_in_cluster_at is None and not view.row.waiting_why
    return is_new and view.now < since + timedelta(seconds=TEMPLATE_SECONDS)


def desired_group(
    view: GroupView, tasks: tuple[TaskView, ...], *, nodes: Mapping[str, str] | None = None
) -> DesiredGroup:
    """The objects that these tasks need. Raises TopologyError for a gang that no scheduler can place.

    ``nodes`` are those that the scheduler assigned to the tasks. Without them there are no pods of a gang
    whose scheduler admits it before its pods.
    """
    awaits_room = nodes is None and asks_first(view.placement) is not None
    if nodes is not None:
        renderer = Renderer(view.values.assigned(nodes))
    else:
        renderer = Renderer(elsewhere(view)) if awaits_room else view.renderer
    task_names = {task.name for task in tasks}
    tries = [task_try for task_try in view.values.tasks if task_try.name in task_names]
    generations = {task_try.generation for task_try in tries}
    pins = DomainPins(view)
    preferred = PreferredDomains(view, pins)
    ended = ended_tasks(view)

    by_pod = {names.pod(task_try.task_uuid, retry=task_try.retry_id): task_try for task_try in tries}

    def render(pod_name: str) -> Obj:
        task_try = by_pod[pod_name]
        pod = preferred.lead(renderer.pod(task_try, ended=ended), task_try)
        return _signed(_pinned(pod, pins.of(task_try), task_try))

    return DesiredGroup(
        namespace=view.placement.terms.namespace,
        secrets=renderer.secrets(),
        compute_domain=renderer.compute_domain(),
        topologies=renderer.topologies(),
        pod_groups=requests(
            view,
            tuple(
                group for generation in sorted(generations) for group in renderer.gangs[generation].pod_groups
            ),
        ),
        parents=tuple(
            parent for generation in sorted(generations) for parent in renderer.gangs[generation].parents
        ),
        service=renderer.service(),
        pods=PodManifests(() if awaits_room else by_pod, render),
        replaced={
            pod_name: tuple(
                names.pod(task_try.task_uuid, retry=retry)
                for retry in range(task_try.first_retry, task_try.retry_id)
            )
            for pod_name, task_try in by_pod.items()
            if task_try.replaces
        },
        awaits_room=awaits_room,
        present_pods=frozenset(task.pod_name for task in view.tasks),
        only_pod_groups=only_pod_groups(view),
    )


def create_pods_again(
    view: GroupView, tasks: Sequence[TaskView], cluster: LeasedCluster
) -> Retry | Failed | None:
    """Create pods after their Secrets, of which a pod of an earlier release may have had others."""
    nodes = None
    if (scheduler := asks_first(view.placement)) is not None:
        present = GroupReader(cluster, view.uuid, view.placement).pods()
        nodes = read_room(view, scheduler, present, cluster=cluster).nodes
        if not all(task.name in nodes for task in tasks):
            return Retry(trouble="Its scheduler has taken back the room of pods that were deleted.")
    desired = desired_group(view, tuple(tasks), nodes=nodes)
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


def _signed(pod: Obj) -> Obj:
    """Note on a pod what is sent of it, so that what the cluster changes shows."""
    metadata = pod["metadata"]
    metadata["annotations"] = {**metadata.get("annotations", {}), SENT_ANNOTATION: sent_text(pod["spec"])}
    return pod


def cluster_uid(view: GroupView, cluster: LeasedCluster) -> str:
    return view.placement.terms.cluster_uid or cluster.kube_system_uid()


def check_cluster(view: GroupView, cluster: LeasedCluster, *, within: float) -> Retry | None:
    """Refuse to act in another cluster than the one the group was frozen to.

    An address that was edited may lead to another cluster, whose empty lists would count as a finished
    teardown. An identity that was read at most ``within`` seconds ago is enough: the mark that permits a
    write may be as old.
    """
    expected = view.placement.terms.cluster_uid
    current = cluster.kube_system_uid(within=within)
    if expected and current != expected:
        return Retry(
            trouble=f'Backend "{view.placement.terms.backend}" now leads to cluster {current}, and the group '
            f"belongs to {expected}: point it back.",
            slow=True,
        )
    return None


def _record_created(
    turn: Turn, tasks: tuple[TaskView, ...], *, domain_uid: str = "", gone: int = 0
) -> ReadAgain | Stop:
    """Record that the pods of these tasks are there; ``gone`` of them are gone already.

    ``domain_uid`` is of the ComputeDomain whose template their claims are made from; empty without one. After
    the first creation there is nothing to follow until the observer reports pods.
    """
    view = turn.view
    reached("before-created-recorded")
    turn.record(_created_changes(view, tasks, domain_uid=domain_uid, gone=gone))
    if view.row.created_in_cluster_at is not None or view.observer_is_silent:
        return ReadAgain()
    return Stop(turn, RequeueAfter(seconds=REPORT_SECONDS), is_explained=True)


def _created_changes(
    view: GroupView, tasks: tuple[TaskView, ...], *, domain_uid: str, gone: int
) -> list[Change]:
    changes: list[Change] = [TaskMove(pk=task.pk, status=str(TaskStatus.SCHEDULING)) for task in tasks]
    if domain_uid and view.row.created_in_cluster_at is None:
        changes.append(DomainOfPods(domain_uid))
    if view.status == TaskStatus.PROCESSING:
        changes.append(GroupMove(status=str(TaskStatus.SCHEDULING)))
    changes.append(Creation())
    if view.row.created_in_cluster_at is None:
        message = f"All objects are in the cluster, {count_of(len(tasks) - gone, 'pod')}."
        if gone:
            message += f" Of {gone} more, which ran, none is left."
        number = view.row.attempt_number
        key = "created" if number == 1 else f"created:{number}"
        changes.append(Note(key=key, reason="Created", message=message))
        changes.append(NewWaitingReason(None))  # until the observer reports them
    return changes


def rejoins_pod_group(view: GroupView) -> bool:
    """Whether a task that is tried again after a peer has finished joins the pod group that exists."""
    return edits_pod_groups(view) or asks_first(view.placement) is not None


def edits_pod_groups(view: GroupView) -> bool:
    """Whether the scheduler's pod groups can be edited while their pods run."""
    return scheduler_backend(view.placement.terms.scheduler_type).edits_pod_groups
