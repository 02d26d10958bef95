"""Recreating objects of a gang that were deleted from outside.

Pods that wait belong to a pod group by name, and without it no scheduler places them; without the
ComputeDomain there is no template for their claims, and one of its name with another uid is not theirs; and a
gang of which a pod is missing is not placed at all. It would wait until its queue timeout, which may be two
months away. So all three are created again, a pod under its own name and as the same try, since it never had
a node and so cannot have run. With the ComputeDomain go the waiting pods: Kubernetes made their claims from
the template of the former one. A gang that waits for room has no pods yet, and gets its ComputeDomain back at
once: admitted without one, it would hold its nodes meanwhile.

NVIDIA's controller makes a claim template that somebody deleted again only after 10 minutes to an hour. While
no claim of the group exists, the ComputeDomain is deleted, and so made again with its template at once. One
without waiting pods is left alone: it was made again just now, and its controller has not come to it yet.

Once a pod has a node, no pod is created again: the end of a pod that may have run is the end of its task. Nor
is the ComputeDomain of a group with a claim, because claims in use name the one that is gone; without claims
it is, since a group of an NVLink pool has one as long as it lives. Pod groups and their parents are created
again as long as a task lives: a retry gets its place by them, and by them a scheduler evicts the gang as a
whole. KAI counts the pods that name a pod group in each cycle anew (``cluster_info.go``), so one that is
created below running pods counts them at once, and its minimums are those of the tasks with a place before
any grace period is over. One by which a running gang had its room is another matter (``objects.room``).

Missing objects are read from the observer's rows, because reconciling a waiting gang must cost no cluster
call; only before one is created again the cluster is asked.
"""

from collections.abc import Callable, Sequence
from datetime import datetime

from cluster.errors import RequestForbidden, ServerFault
from cluster.interface import DeleteTarget, Obj
from cluster.kinds import COMPUTE_DOMAIN, POD, Kind
from pools.clusters.kinds import kind_of
from scheduling.sentences import agree, listing, plain_listing
from web.times import read_instant
from workflows.lifecycle.statuses import CREATED, TaskStatus
from workflows.reconcile.assess.follow import UNSEEN_GRACE, ObservedPods
from workflows.reconcile.objects.apply import (
    NameTaken,
    create_objects,
    has_same_owner,
    retry_for,
    taken_sentence,
)
from workflows.reconcile.objects.create import create_pods_again, edits_pod_groups
from workflows.reconcile.objects.plan import Create
from workflows.reconcile.objects.room import asks_first, requests
from workflows.reconcile.observe import observations
from workflows.reconcile.observe.binding import bound_pods
from workflows.reconcile.turn import StepResult, Stop, Turn
from workflows.reconcile.view.group_reader import GroupReader, LiveObject, pod_group_kind
from workflows.reconcile.view.group_view import GroupView, TaskView, claims_channels
from workflows.reconcile.view.leased import LeasedCluster
from workflows.reconcile.view.outcomes import Failed, RequeueAfter, Retry, look_again
from workflows.services.changes import Change, DomainOfPods, Note
from workflows.values.observation import POD_GROUP

SOON = 2.0
SELDOM = 60.0
_DOMAIN_GONE = "Its ComputeDomain was deleted from outside, and no pod uses a channel of it."


def recreate_missing(turn: Turn) -> StepResult:
    """Create the missing objects of the gang again, lost pods last. Raises ClusterError, NameTaken."""
    view, lost = turn.view, turn.assessment.lost
    if view.observer_is_silent or view.row.repinning:
        return turn
    if not _waits(view, turn.observed, lost):
        _recreate_unclaimed_domain(turn)
        if asks_first(view.placement) is None:
            _recreate_pod_groups_of_running(turn)
        return turn
    outcome = (
        (_drop_other_tries(turn) if lost else None)
        or _drop_domain(turn)
        or _recreate_claimed_domain(turn)
        or _recreate_pod_groups(turn)
        or (_recreate_pods(turn, lost) if lost else None)
    )
    return Stop(turn, outcome) if outcome else turn


def recreate_domain_before_room(turn: Turn) -> StepResult:
    """Create the ComputeDomain of a gang that waits for room again. Raises ClusterError, NameTaken."""
    view = turn.view
    is_due = view.placement.nvlink and view.awaits_room and not turn.learned.unchosen
    if not is_due or view.observer_is_silent:
        return turn
    outcome = _drop_domain(turn) or (
        None if observations.compute_domain_observed(view) else _recreate_domain(turn)
    )
    return Stop(turn, outcome) if outcome else turn


def _drop_other_tries(turn: Turn) -> RequeueAfter | Retry | None:
    """Delete pods of tries that the rows do not know, and wait until they are gone. Raises ClusterError.

    They come from a later state of the database, which was put back since: two attempts would live at once.
    """
    view = turn.view
    pods = GroupReader(turn.cluster, view.uuid, view.placement).pods()
    unwanted = pods.keys() - {task.pod_name for task in view.tasks}
    if not unwanted:
        return None
    namespace = view.placement.terms.namespace
    alive = [pods[name] for name in sorted(unwanted) if not pods[name].deleting]
    targets = [DeleteTarget(pod.name, namespace, pod.uid) for pod in alive]
    return _delete(POD, targets, turn.cluster, grace_seconds=None) or RequeueAfter(seconds=SOON)


def _delete(
    kind: Kind, targets: Sequence[DeleteTarget], cluster: LeasedCluster, *, grace_seconds: int | None
) -> Retry | None:
    """Delete these objects; when to try again where one was refused. Raises ClusterError."""
    errors = [deletion.error for deletion in cluster.delete_many(kind, targets, grace_seconds=grace_seconds)]
    refused = next((error for error in errors if error is not None), None)
    return retry_for(refused) if refused else None


def _drop_domain(turn: Turn) -> RequeueAfter | Retry | None:
    """Delete a ComputeDomain whose template was removed, while no pod has a claim of it. Raises ClusterError.

    It is made again once it is gone, as one that somebody else deleted.
    """
    view = turn.view
    domains = _domains_without_template(view, turn.cluster)
    if not domains:
        return None
    if not any(domain.deleting for domain in domains):
        namespace = view.placement.terms.namespace
        targets = [DeleteTarget(domain.name, namespace, domain.uid) for domain in domains]
        if failure := _delete(COMPUTE_DOMAIN, targets, turn.cluster, grace_seconds=None):
            return failure
        message = (
            "The claim template of its ComputeDomain was deleted from outside before any claim was made from "
            "it: the ComputeDomain is made again."
        )
        note = Note(key=_made_again_key(domains[0].uid), reason="ComputeDomainMadeAgain", message=message)
        turn.record([note, DomainOfPods(domains[0].uid)])
    waited = view.now - (view.row.created_in_cluster_at or view.row.scheduling_start_time or view.now)
    return look_again(waited, first=SOON, most=SELDOM)


def _domains_without_template(view: GroupView, cluster: LeasedCluster) -> Sequence[LiveObject]:
    """The group's ComputeDomain if it has lost its template and no pod has a claim or a node; else nothing.

    Rows may lack a template that was made since, so the cluster itself is asked. Before there are pods, a
    ComputeDomain had its template if it is older than the wait for room.
    """
    if not view.placement.nvlink or observations.claim_template_observed(view):
        return ()
    if not observations.compute_domain_observed(view):
        return ()
    reader = GroupReader(cluster, view.row.pk, view.placement)
    live = reader.before_create(())
    if live.template is not None or any(pod.node for pod in live.pods.values()):
        return ()
    had_template = any(not pod.deleting for pod in live.pods.values())
    if not (_is_older_than_wait(view, reader) if view.awaits_room else had_template):
        return ()
    claims = reader.claims(frozenset(live.pods), claim_names=None) if live.domains else ()
    return () if claims else list(live.domains.values())


def _is_older_than_wait(view: GroupView, reader: GroupReader) -> bool:
    domain = reader.domain_by_name()
    created = read_instant(domain["metadata"].get("creationTimestamp")) if domain is not None else None
    starts = [task.scheduling_start_time for task in view.scheduling if task.scheduling_start_time]
    return created is not None and created <= min(starts, default=created)


def _recreate_claimed_domain(turn: Turn) -> RequeueAfter | Retry | Failed | None:
    """Create the ComputeDomain again once no waiting pod names the one before. Raises ClusterError."""
    if not turn.view.placement.nvlink or observations.compute_domain_observed(turn.view):
        return None
    return _drop_pods(turn) or _recreate_domain(turn)


def _drop_pods(turn: Turn) -> RequeueAfter | Retry | None:
    """Delete the waiting pods of a ComputeDomain that is gone: their claims name it, so none would start.

    They are created again once the next one has its template. Raises ClusterError.
    """
    view, cluster = turn.view, turn.cluster
    pods = GroupReader(cluster, view.row.pk, view.placement).pod_observations()
    if not pods:
        return None
    if bound_pods(view, cluster, pods).may_be_any:
        return RequeueAfter(seconds=SOON)
    targets = [
        DeleteTarget(pod.name, pod.namespace, pod.uid, pod.resource_version)
        for pod in pods.values()
        if not pod.deleting
    ]
    return _delete(POD, targets, cluster, grace_seconds=0)


def _recreate_unclaimed_domain(turn: Turn) -> None:
    """Create the ComputeDomain of a running group again, if no live task claims a channel of it.

    No task needs it, so a refusal ends none and keeps nothing else of the group waiting. The next reconcile
    tries again. Raises ClusterError.
    """
    view = turn.view
    if not view.placement.nvlink or not _is_old(view) or observations.compute_domain_observed(view):
        return
    if claims_channels(view.live) or not turn.cluster.serves(COMPUTE_DOMAIN):
        return
    if refusal := _refusal(lambda: _recreate_domain(turn)):
        note = _refused(view, "ComputeDomain", f"{_DOMAIN_GONE} It could not be made again. {refusal}")
        turn.record([note, DomainOfPods("")])


def _refusal(create: Callable[[], Failed | Retry | None]) -> str:
    """Create what no running task needs; why it could not be, empty if it was. Raises ClusterError."""
    try:
        failure = create()
    except NameTaken as error:
        return str(error)
    except (RequestForbidden, ServerFault) as error:
        return f"The cluster does not take it: {error}"
    return failure.message if isinstance(failure, Failed) else failure.trouble if failure else ""


def _refused(view: GroupView, kind: str, message: str) -> Note:
    key = f"{kind}-refused:{view.row.attempt_number}"
    return Note(key=key, reason=f"{kind}Refused", message=message, warning=True)


def _recreate_domain(turn: Turn) -> Failed | Retry | None:
    """Create the ComputeDomain again, of which no pod uses a channel. Raises ClusterError, NameTaken.

    Rows may lack one that was made since, so the cluster itself is asked; one that is still ending is made
    again once the observer reports its end.
    """
    view, cluster = turn.view, turn.cluster
    domain = view.renderer.compute_domain()
    if domain is None:
        return None
    changes: list[Change] = [DomainOfPods("")] if view.domain_uid else []
    existing = GroupReader(cluster, view.uuid, view.placement).domain_by_name()
    if existing is None:
        if failure := create_objects(Create(COMPUTE_DOMAIN, (domain,)), cluster=cluster):
            return failure
        key = _made_again_key(view.domain_uid or view.now.isoformat())
        message = f"{_DOMAIN_GONE} It is made again."
        changes.append(Note(key=key, reason="ComputeDomainMadeAgain", message=message))
    elif not has_same_owner(existing, domain):
        raise NameTaken(taken_sentence(COMPUTE_DOMAIN, domain))
    if changes:
        turn.record(changes)
    return None


def _made_again_key(domain: str) -> str:
    """Of the event about the ComputeDomain of this uid, be it gone or deleted to be made again."""
    return f"domain:{domain}"


def _recreate_pod_groups_of_running(turn: Turn) -> None:
    """The same of a gang that runs, at least in part: a refusal ends no task. Raises ClusterError."""
    if refusal := _refusal(lambda: _recreate_pod_groups(turn)):
        message = f"What its scheduler knows the gang by was deleted from outside. {refusal}"
        turn.record([_refused(turn.view, "PodGroup", message)])


def _recreate_pod_groups(turn: Turn) -> Failed | Retry | None:
    """Create the pod groups of live tasks again, and what stands above them. Raises ClusterError, NameTaken.

    Rows may lack one that was made since, so the cluster itself is asked. One that is ending is still there.
    """
    view, cluster = turn.view, turn.cluster
    namespace = view.placement.terms.namespace
    gone = [
        (kind, obj)
        for obj in _unobserved_pod_groups(view)
        if not _is_there(obj, cluster.get(kind := kind_of(obj), obj["metadata"]["name"], namespace=namespace))
    ]
    for kind, obj in gone:
        if failure := create_objects(Create(kind, (obj,)), cluster=cluster):
            return failure
    if gone:
        named = plain_listing(f"{kind.name} {obj['metadata']['name']}" for kind, obj in gone)
        message = f"{named} had been deleted from outside and {agree(len(gone), 'is', 'are')} there again."
        key = f"pod-groups:{view.now.isoformat()}"
        turn.record([Note(key=key, reason="PodGroupMadeAgain", message=message)])
    return None


def _is_there(desired: Obj, existing: Obj | None) -> bool:
    return existing is not None and has_same_owner(existing, desired)


def _unobserved_pod_groups(view: GroupView) -> list[Obj]:
    """The pod groups of tasks that have pods, after what stands above them, of which there is no row."""
    if not _is_old(view) or pod_group_kind(view.placement) is None:
        return []
    observed = observations.names_of_pod_groups(view)
    if observed and edits_pod_groups(view):  # there is only one: nothing has to be rendered
        return []
    generations = {task.generation for task in view.live if task.status in CREATED}
    gangs = [view.gangs[number] for number in sorted(generations)]
    pod_groups = requests(view, tuple(group for gang in gangs for group in gang.pod_groups))
    parents = [parent for gang in gangs for parent in gang.parents]
    return [
        *(obj for obj in parents if (obj["kind"], obj["metadata"]["name"]) not in observed),
        *(obj for obj in pod_groups if (POD_GROUP, obj["metadata"]["name"]) not in observed),
    ]


def next_missing_check(view: GroupView) -> datetime | None:
    """When a missing object of a new gang can first be told apart from one not observed yet."""
    created_at = view.row.created_in_cluster_at
    return created_at + UNSEEN_GRACE if created_at is not None and not _is_old(view) else None


def _recreate_pods(turn: Turn, lost: Sequence[TaskView]) -> RequeueAfter | Retry | Failed | None:
    """Create the pods again, once the template of their claims exists.

    Only rarely is a pod missing, so the cluster itself is asked whether the gang still waits: rows that come
    from an old list may lack pods that have run since, and a pod that has run is never created again.
    """
    view, cluster = turn.view, turn.cluster
    if view.placement.nvlink and not (
        observations.compute_domain_observed(view) and observations.claim_template_observed(view)
    ):
        return RequeueAfter(seconds=SOON)
    reader = GroupReader(cluster, view.row.pk, view.placement)
    present = reader.pod_observations()
    lost = [task for task in lost if task.pod_name not in present]  # another may not be observed yet
    if not lost or any(pod.node_name for pod in present.values()):
        return RequeueAfter(seconds=SOON)
    domain = reader.domain() if view.placement.nvlink else None
    if domain and view.domain_uid not in ("", domain.uid):
        return RequeueAfter(seconds=SOON)  # the claims of other pods may name the one before
    if failure := create_pods_again(view, lost, cluster):
        return failure
    times = sorted(str(turn.observed.gone_at.get(task.pod_name)) for task in lost)
    message = (
        f"The pods of {listing(task.name for task in lost)} were deleted while the group waited for a place: "
        "they were created again."
    )
    note = Note(key=f"again:{times[-1]}", reason="PodsMadeAgain", message=message)
    turn.record([note, *([DomainOfPods(domain.uid)] if domain else [])])
    return None


def _is_old(view: GroupView) -> bool:
    """Whether the group's objects exist for longer than an observer takes to report them."""
    created_at = view.row.created_in_cluster_at
    return created_at is not None and view.now - created_at >= UNSEEN_GRACE


def _waits(view: GroupView, observed: ObservedPods, lost: Sequence[TaskView]) -> bool:
    """Whether the rest of the gang has no node, for longer than an observer takes to report one."""
    if not _is_old(view) or view.has_node:
        return False
    lost_keys = {task.pk for task in lost}
    live = view.live
    pods = [observed.pods.get(task.pod_name) for task in live if task.pk not in lost_keys]
    return (
        bool(live)
        and all(task.status == TaskStatus.SCHEDULING for task in live)
        and all(pod is not None and not pod.absent and not pod.deleting and not pod.node_name for pod in pods)
    )
