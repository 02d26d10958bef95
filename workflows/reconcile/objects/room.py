"""Room before pods: a gang whose scheduler admits it, and assigns nodes, before it has pods.

The pod group asks for the room of the whole gang. Until the scheduler's answer the group waits without pods
(``GroupView.awaits_room``); then each pod is made for the node that its task was assigned. The answer is
kept nowhere but in the pod group, which is read live before pods are made, so a worker that dies in between
loses nothing and no pod is made for room that was taken back meanwhile. While the observer's rows show no
answer, a reconciliation costs no call to the cluster.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cluster.interface import Obj
from pools.values.recovery import Response
from scheduling.backends.base import RoomCause, RoomLoss
from scheduling.backends.facets import AdmissionBeforePods
from scheduling.backends.registry import scheduler_backend
from scheduling.sentences import agree, as_sentence, plain_listing
from scheduling.topology.levels import HOSTNAME_LABEL
from workflows.explain.obstacles import MOST_NAMED
from workflows.lifecycle.pod_status import ROOM_SWITCHED_OFF, read_without_room
from workflows.lifecycle.statuses import TaskStatus
from workflows.manifests.group import Renderer
from workflows.models import Attempt
from workflows.reconcile.assess.follow import UNSEEN_GRACE, ObservedPods, end_all
from workflows.reconcile.assess.recovering import new_attempt, recovery_without_pods
from workflows.reconcile.objects.apply import has_same_owner
from workflows.reconcile.observe import observations
from workflows.reconcile.turn import StepResult, Turn
from workflows.reconcile.view.group_reader import ObjectsByName, owner_labels, pod_group_kind
from workflows.reconcile.view.group_view import GroupView, history_of
from workflows.reconcile.view.leased import LeasedCluster
from workflows.services.changes import Change, GroupMove, TaskMove
from workflows.values.placement import GroupPlacement

_DELETED = (
    "The object by which its gang had its room was deleted from outside, so its scheduler may have given the "
    "nodes away."
)
_UNADMITTED = (
    "The object by which its gang had its room says no more that the gang is admitted, so its scheduler may "
    "have given the nodes away."
)


@dataclass(frozen=True, slots=True)
class Reservation:
    """The scheduler's answer: the ``nodes`` of tasks, by name; none before the gang is admitted.

    ``lost`` says how the scheduler took the room back; None if it has not. ``unknown`` are nodes that the
    cluster does not have; their tasks have none.
    """

    nodes: Mapping[str, str]
    lost: RoomLoss | None = None
    unknown: tuple[str, ...] = ()


def unknown_sentence(nodes: Sequence[str]) -> str:
    """Which nodes its scheduler assigned that the cluster does not have; empty for none."""
    if not nodes:
        return ""
    named = f"{agree(len(nodes), 'node', 'nodes')} {plain_listing(nodes, limit=MOST_NAMED)}"
    return (
        f"Its scheduler assigned {named}, which {agree(len(nodes), 'is', 'are')} not among the "
        "cluster's nodes. It waits until the scheduler assigns others."
    )


def asks_first(placement: GroupPlacement) -> AdmissionBeforePods | None:
    """How the group's scheduler admits a gang before its pods; None for one that does not."""
    return scheduler_backend(placement.terms.scheduler_type).admission


def requests(view: GroupView, pod_groups: tuple[Obj, ...]) -> tuple[Obj, ...]:
    """The pod groups as they ask for room: switched off where that ended the attempt before.

    Otherwise each new attempt would undo what an administrator did.
    """
    scheduler = asks_first(view.placement)
    if scheduler is None or not _begins_switched_off(view):
        return pod_groups
    return tuple(scheduler.switched_off(pod_group) for pod_group in pod_groups)


def _begins_switched_off(view: GroupView) -> bool:
    """Whether the attempt asks for no room before somebody switches its pod group on."""
    if view.row.attempt_number == 1:
        return False
    ended = Attempt.objects.filter(group=view.row).order_by("-number")
    return ended.values_list("evidence", flat=True).first() == ROOM_SWITCHED_OFF


def waits_by_rows(view: GroupView) -> bool:
    """Whether the observer's rows show the pod groups of the gang and no others, and no answer on any."""
    scheduler = asks_first(view.placement)
    if scheduler is None or not view.awaits_room or view.observer_is_silent:
        return False
    answers = {
        str(row["metadata"]["name"]): scheduler.admission(row) for row in observations.pod_groups(view)
    }
    return answers.keys() == only_pod_groups(view) and not any(
        answer.admitted or answer.lost for answer in answers.values()
    )


def only_pod_groups(view: GroupView) -> frozenset[str] | None:
    """The names of a gang's pod groups, where there are no others of it; None where there may be.

    Before an attempt has pods, a pod group of another generation is of a later state of the database, which
    was put back since. It may hold the room that the gang asks for.
    """
    if asks_first(view.placement) is None or view.row.created_in_cluster_at is not None:
        return None
    return frozenset(view.pod_group_names.values())


def read_room(
    view: GroupView, scheduler: AdmissionBeforePods, pods: ObjectsByName, *, cluster: LeasedCluster
) -> Reservation:
    """Read the answer from the cluster; tasks with ``pods`` keep their nodes. Raises ClusterError.

    A node that is not there any more is nobody's: its task waits until the scheduler has replaced it.
    """
    nodes: dict[str, str] = {}
    unknown: set[str] = set()
    for generation, pod_group in _pod_groups(view, cluster).items():
        answer = scheduler.admission(pod_group)
        if answer.lost is not None:
            return Reservation({}, answer.lost)
        if answer.admitted:
            values = view.values.assigned(_present_nodes(view, pods))
            request = Renderer(values).requests[generation]
            domains = _domains(view)
            assigned = scheduler.nodes(request, pod_group, domains=domains)
            unknown |= set(assigned.values()) - domains.keys() if domains else set()
            nodes |= {task: node for task, node in assigned.items() if node not in unknown}
    return Reservation(nodes, unknown=tuple(sorted(unknown)))


def with_room(view: GroupView, observed: ObservedPods, *, cluster: LeasedCluster) -> ObservedPods:
    """The same, with how the gang lost its room where the rows do not say it. Raises ClusterError.

    Without its pod group, or one that is admitted, a gang that runs counts nowhere: the scheduler may admit
    others to its nodes. One made anew would ask for room beside the gang's own pods, and might be given other
    nodes. So the attempt ends. A row may be missing or late for a moment, so the cluster itself is asked.
    """
    scheduler, created_at = asks_first(view.placement), view.row.created_in_cluster_at
    if scheduler is None or created_at is None or not view.placement.attempts:
        return observed
    if observed.room_lost is not None or view.now - created_at < UNSEEN_GRACE:
        return observed
    rows = () if observed.observer_silent else observations.pod_groups(view)
    if rows and all(scheduler.admission(row).admitted for row in rows):
        return observed
    live = {number: scheduler.admission(obj) for number, obj in _pod_groups(view, cluster).items()}
    lost = next((answer.lost for answer in live.values() if answer.lost), None)
    if view.pod_group_names.keys() - live.keys():
        lost = RoomLoss(RoomCause.DELETED, _DELETED)
    elif lost is None and not all(answer.admitted for answer in live.values()):
        lost = RoomLoss(RoomCause.DELETED, _UNADMITTED)
    return replace(observed, settled=(), room_lost=lost) if lost else observed


def _pod_groups(view: GroupView, cluster: LeasedCluster) -> dict[int, Obj]:
    """The gang's pod groups that exist and are not being deleted, by generation; no object of a stranger."""
    kind, namespace = pod_group_kind(view.placement), view.placement.terms.namespace
    live: dict[int, Obj] = {}
    own: Obj = {"metadata": {"labels": owner_labels(view.uuid, view.placement)}}
    for generation, name in view.pod_group_names.items():
        obj = cluster.get(kind, name, namespace=namespace) if kind else None
        if obj is not None and "deletionTimestamp" not in obj["metadata"] and has_same_owner(obj, own):
            live[generation] = obj
    return live


def _present_nodes(view: GroupView, pods: ObjectsByName) -> dict[str, str]:
    """The nodes for which the present pods were made."""
    return {
        task.name: pod.assigned
        for task in view.tasks
        if (pod := pods.get(task.pod_name)) is not None and pod.assigned
    }


def _domains(view: GroupView) -> dict[str, tuple[str | None, ...]]:
    """The places of the cluster's nodes, by their label kubernetes.io/hostname."""
    labels = [level.label for level in view.placement.terms.levels]
    return {
        carried.get(HOSTNAME_LABEL, name): tuple(carried.get(label) for label in labels)
        for name, carried in observations.node_labels(view).items()
    }


def lost_changes(view: GroupView, lost: RoomLoss) -> list[Change]:
    """What to record of a gang that lost its room before it had pods: the next attempt, or its end."""
    reading, history = read_without_room(lost), history_of(view.row, now=view.now, tasks=())
    recovery = recovery_without_pods(view, reading, history=history)
    if recovery.response == Response.FAIL:
        message = as_sentence(reading.message) + f" {recovery.refused}"
        return end_all(
            [task.pk for task in view.live], status=reading.status, message=message, code=reading.code
        )
    return new_attempt(view, {}, recovery, out_of_domain=history.out_of_domain)


def record_queued(turn: Turn) -> StepResult:
    """Record that the pod group waits for room, unless that is recorded."""
    view = turn.view
    if view.status != TaskStatus.PROCESSING or view.row.created_in_cluster_at is not None:
        return turn
    moves = [
        TaskMove(pk=task.pk, status=str(TaskStatus.SCHEDULING))
        for task in view.tasks
        if task.status == TaskStatus.PROCESSING
    ]
    return turn.moved([*moves, GroupMove(status=str(TaskStatus.SCHEDULING))])
