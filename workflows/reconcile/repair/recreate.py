"""Recreating objects that were deleted from outside while their gang, or a retry of it, waits for its place.

Its pods belong to a pod group by name, and without it no scheduler places them; without the ComputeDomain
there is no template for their claims, and one of its name with another uid is not theirs; and a gang of which
a pod is missing is not placed at all. It would wait until its queue timeout, which may be two months away. So
all three are created again, a pod under its own name and as the same try, since it never had a node and so
cannot have run. With the ComputeDomain go the waiting pods: Kubernetes made their claims from the template of
the former one.

NVIDIA's controller makes a claim template that somebody deleted again only after 10 minutes to an hour. While
no claim of the group exists, the ComputeDomain is deleted, and so made again with its template at once. One
without waiting pods is left alone: it was made again just now, and its controller has not come to it yet.

Once a pod has a node, no pod is created again: the end of a pod that may have run is the end of its task. Nor
is the ComputeDomain of a group with a claim, because claims in use name the one that is gone; without claims
it is, since a group of an NVLink pool has one as long as it lives. The pod group is created again while a
task waits for a place, on its first try or a later one: nothing else would ever give it one. KAI counts the
pods that name a pod group in each cycle anew (``cluster_info.go``), so one that is created below running pods
counts them at once, and its minimums are those of the tasks with a place before any grace period is over.

Missing objects are read from the observer's rows, because reconciling a waiting gang must cost no cluster
call; only before a pod is created again the cluster is asked. A create of an object that exists after all is
harmless.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime

from cluster.errors import RequestForbidden, ServerFault
from cluster.interface import DeleteTarget, Obj
from cluster.kinds import COMPUTE_DOMAIN, POD, Kind
from pools.clusters.kinds import kind_of
from scheduling.sentences import listing
from workflows.lifecycle.statuses import TaskStatus
from workflows.reconcile.assess.follow import UNSEEN_GRACE, ObservedPods
from workflows.reconcile.form import edit
from workflows.reconcile.objects.apply import (
    NameTaken,
    create_objects,
    has_same_owner,
    retry_for,
    taken_sentence,
)
from workflows.reconcile.objects.create import create_pods_again, edits_pod_groups
from workflows.reconcile.objects.plan import Create
from workflows.reconcile.objects.room import requests
from workflows.reconcile.observe import observations
from workflows.reconcile.observe.binding import bound_pods
from workflows.reconcile.view.group_reader import GroupReader, LiveObject, pod_group_kind
from workflows.reconcile.view.group_view import GroupView, TaskView, claims_channels
from workflows.reconcile.view.leased import LeasedCluster
from workflows.reconcile.view.outcomes import Failed, RequeueAfter, Retry, look_again
from workflows.services.changes import DomainOfPods, Note
from workflows.services.lease import Lease
from workflows.services.record import record

SOON = 2.0
SELDOM = 60.0


def recreate_missing(
    view: GroupView, observed: ObservedPods, lost: Sequence[TaskView], lease: Lease, cluster: LeasedCluster
) -> RequeueAfter | Retry | Failed | None:
    """Create the missing objects of the gang again, ``lost`` pods last. Raises ClusterError."""
    if not _waits(view, observed, lost):
        failure = _recreate_domain(view, lease, cluster)
        failure = failure or _recreate_parents(view, observed, lease, cluster)
        return failure or _recreate_pod_group(view, observed, lease, cluster)
    if lost and (unclear := _drop_other_tries(view, cluster)):
        return unclear
    if unclear := _drop_domain(view, lease, cluster):
        return unclear
    steps: list[Create] = []
    if view.placement.nvlink and not observations.compute_domain_observed(view):
        if unclear := _drop_pods(view, cluster):
            return unclear
        domain = view.renderer.compute_domain()
        steps += [Create(COMPUTE_DOMAIN, (domain,))] if domain else []
    steps += _missing_parents(view, _generations(view))
    steps += _missing_pod_groups(view)
    for step in steps:
        if failure := create_objects(step, cluster=cluster):
            return failure
    if view.domain_uid and any(step.kind == COMPUTE_DOMAIN for step in steps):
        record(lease, [DomainOfPods("")])  # until there are pods again, which claim channels of the new one
    return _recreate_pods(view, observed, lost, lease, cluster) if lost else None


def _drop_other_tries(view: GroupView, cluster: LeasedCluster) -> RequeueAfter | Retry | None:
    """Delete pods of tries that the rows do not know, and wait until they are gone. Raises ClusterError.

    They come from a later state of the database, which was put back since: two attempts would live at once.
    """
    pods = GroupReader(cluster, view.uuid, view.placement).pods()
    unwanted = pods.keys() - {task.pod_name for task in view.tasks}
    if not unwanted:
        return None
    namespace = view.placement.terms.namespace
    alive = [pods[name] for name in sorted(unwanted) if not pods[name].deleting]
    targets = [DeleteTarget(pod.name, namespace, pod.uid) for pod in alive]
    return _delete(POD, targets, cluster, grace_seconds=None) or RequeueAfter(seconds=SOON)


def _delete(
    kind: Kind, targets: Sequence[DeleteTarget], cluster: LeasedCluster, *, grace_seconds: int | None
) -> Retry | None:
    """Delete these objects; when to try again where one was refused. Raises ClusterError."""
    errors = [deletion.error for deletion in cluster.delete_many(kind, targets, grace_seconds=grace_seconds)]
    refused = next((error for error in errors if error is not None), None)
    return retry_for(refused) if refused else None


def _drop_domain(view: GroupView, lease: Lease, cluster: LeasedCluster) -> RequeueAfter | Retry | None:
    """Delete a ComputeDomain whose template was removed, while no pod has a claim of it. Raises ClusterError.

    It is made again once it is gone, as one that somebody else deleted.
    """
    domains = _domains_without_template(view, cluster)
    if not domains:
        return None
    if not any(domain.deleting for domain in domains):
        namespace = view.placement.terms.namespace
        targets = [DeleteTarget(domain.name, namespace, domain.uid) for domain in domains]
        if failure := _delete(COMPUTE_DOMAIN, targets, cluster, grace_seconds=None):
            return failure
        message = (
            "The claim template of its ComputeDomain was deleted from outside before any claim was made from "
            "it: the ComputeDomain is made again."
        )
        note = Note(key=f"domain:{domains[0].uid}", reason="ComputeDomainMadeAgain", message=message)
        record(lease, [note])
    waited = view.now - (view.row.created_in_cluster_at or view.now)
    return look_again(waited, first=SOON, most=SELDOM)


def _domains_without_template(view: GroupView, cluster: LeasedCluster) -> Sequence[LiveObject]:
    """The group's ComputeDomain if it has lost its template and no pod has a claim or a node; else nothing.

    Rows may lack a template that was made since, so the cluster itself is asked.
    """
    if not view.placement.nvlink or observations.claim_template_observed(view):
        return ()
    if not observations.compute_domain_observed(view):
        return ()
    reader = GroupReader(cluster, view.row.pk, view.placement)
    live = reader.before_create(())
    if live.template is not None or any(pod.node for pod in live.pods.values()):
        return ()
    if all(pod.deleting for pod in live.pods.values()):
        return ()
    claims = reader.claims(frozenset(live.pods), claim_names=None) if live.domains else ()
    return () if claims else list(live.domains.values())


def _drop_pods(view: GroupView, cluster: LeasedCluster) -> RequeueAfter | Retry | None:
    """Delete the waiting pods of a ComputeDomain that is gone: their claims name it, so none would start.

    They are created again once the next one has its template. Raises ClusterError.
    """
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


def _missing_parents(view: GroupView, generations: Collection[int]) -> list[Create]:
    """What stands above the pod groups and was not observed: nothing protects it, and pods wait for it."""
    manifests = [parent for generation in sorted(generations) for parent in view.gangs[generation].parents]
    observed = observations.parents(view) if manifests else frozenset()
    by_kind: dict[Kind, list[Obj]] = {}
    for obj in manifests:
        if (obj["kind"], obj["metadata"]["name"]) not in observed:
            by_kind.setdefault(kind_of(obj), []).append(obj)
    return [Create(kind, objs) for kind, objs in by_kind.items()]


def _generations(view: GroupView) -> list[int]:
    return sorted({task.generation for task in view.tasks})


def _missing_pod_groups(view: GroupView) -> list[Create]:
    """The pod groups that were not observed; one of another generation is of no use to its pods."""
    observed = {group["metadata"]["name"] for group in observations.pod_groups(view)}
    return [
        replace(step, objs=absent)
        for step in _pod_groups(view)
        if (absent := tuple(obj for obj in step.objs if obj["metadata"]["name"] not in observed))
    ]


def _pod_groups(view: GroupView) -> list[Create]:
    kind = pod_group_kind(view.placement)
    groups = tuple(group for generation in _generations(view) for group in view.gangs[generation].pod_groups)
    return [Create(kind, requests(view, groups))] if kind is not None and groups else []


def _recreate_domain(view: GroupView, lease: Lease, cluster: LeasedCluster) -> Failed | Retry | None:
    """Create the ComputeDomain of a running group again, if no live task claims a channel of it.

    Rows may lack one that was made since, so the cluster itself is asked; one that is still ending is made
    again once the observer reports its end. Raises ClusterError.
    """
    if not view.placement.nvlink or not _is_old(view) or observations.compute_domain_observed(view):
        return None
    if claims_channels(view) or not cluster.serves(COMPUTE_DOMAIN):
        return None
    domain = view.renderer.compute_domain()
    if domain is None:
        return None
    existing = GroupReader(cluster, view.uuid, view.placement).domain_by_name()
    if existing is None:
        note = _made_again(view, domain, cluster)
    elif has_same_owner(existing, domain):
        if view.domain_uid:
            record(lease, [DomainOfPods("")])  # nothing of the group is bound to the one before
        return None
    else:
        message = f"Its ComputeDomain is gone. {taken_sentence(COMPUTE_DOMAIN, domain)}"
        key = f"domain-taken:{existing['metadata']['uid']}"
        note = Note(key=key, reason="ComputeDomainNameTaken", message=message, warning=True)
    record(lease, [note, DomainOfPods("")])
    return None


def _made_again(view: GroupView, domain: Obj, cluster: LeasedCluster) -> Note:
    """Create the ComputeDomain; what became of it.

    No task needs it, so a refusal ends none and keeps nothing else of the group waiting. The next reconcile
    tries again.
    """
    gone = "Its ComputeDomain was deleted from outside, and no task claims a channel of it."
    try:
        failure = create_objects(Create(COMPUTE_DOMAIN, (domain,)), cluster=cluster)
        refusal = failure.message if isinstance(failure, Failed) else failure.trouble if failure else ""
    except NameTaken as error:
        refusal = str(error)
    except (RequestForbidden, ServerFault) as error:
        refusal = f"The cluster does not take it: {error}"
    if not refusal:
        key = f"domain:{view.now.isoformat()}"
        return Note(key=key, reason="ComputeDomainMadeAgain", message=f"{gone} It is made again.")
    key = f"domain-refused:{view.row.attempt_number}"
    message = f"{gone} It could not be made again. {refusal}"
    return Note(key=key, reason="ComputeDomainRefused", message=message, warning=True)


def _recreate_pod_group(
    view: GroupView, observed: ObservedPods, lease: Lease, cluster: LeasedCluster
) -> Failed | Retry | None:
    """Create the pod group of a running gang again, if one of its tasks still needs it for its place."""
    waiting = [task for task in view.scheduling if _waits_since(task, observed, view.now)]
    if not waiting or not edits_pod_groups(view) or observations.pod_groups(view):
        return None
    if edit.read(view, cluster) is not None:
        return None
    for step in _pod_groups(view):
        if failure := create_objects(step, cluster=cluster):
            return failure
    message = (
        "The pod group was deleted from outside: it was created again, so that the scheduler places "
        f"{listing(task.name for task in waiting)}."
    )
    record(
        lease, [Note(key=f"pod-group:{view.now.isoformat()}", reason="PodGroupMadeAgain", message=message)]
    )
    return None


def _recreate_parents(
    view: GroupView, observed: ObservedPods, lease: Lease, cluster: LeasedCluster
) -> Failed | Retry | None:
    """Create again what stood above the pod groups of tasks that wait for a place beside running peers."""
    waiting = [task for task in view.scheduling if _waits_since(task, observed, view.now)]
    steps = _missing_parents(view, {task.generation for task in waiting})
    namespace = view.placement.terms.namespace
    gone = [
        (step.kind, obj["metadata"]["name"])
        for step in steps
        for obj in step.objs
        if cluster.get(step.kind, obj["metadata"]["name"], namespace=namespace) is None
    ]
    if not gone:
        return None
    for step in steps:
        if failure := create_objects(step, cluster=cluster):
            return failure
    message = (
        f"{listing(f'{kind.name} {name}' for kind, name in gone)} had been deleted from outside and is there "
        f"again, so that the scheduler places {listing(task.name for task in waiting)}."
    )
    note = Note(key=f"parents:{view.now.isoformat()}", reason="PodGroupMadeAgain", message=message)
    record(lease, [note])
    return None


def _waits_since(task: TaskView, observed: ObservedPods, now: datetime) -> bool:
    """Whether a waiting task has no node, for longer than an observer takes to report its pod group."""
    pod, since = observed.pods.get(task.pod_name), task.scheduling_start_time
    is_old = since is not None and now - since >= UNSEEN_GRACE
    return is_old and pod is not None and not pod.node_name


def next_missing_check(view: GroupView) -> datetime | None:
    """When a missing object of a new gang, or of a task that is tried again, is no late report any more."""
    begun = [view.row.created_in_cluster_at]
    if view.status != TaskStatus.SCHEDULING:
        begun += [task.scheduling_start_time for task in view.scheduling]
    times = [since + UNSEEN_GRACE for since in begun if since is not None]
    return min((time for time in times if time > view.now), default=None)


def _recreate_pods(
    view: GroupView, observed: ObservedPods, lost: Sequence[TaskView], lease: Lease, cluster: LeasedCluster
) -> RequeueAfter | Retry | Failed | None:
    """Create the pods again, once the template of their claims exists.

    Only rarely is a pod missing, so the cluster itself is asked whether the gang still waits: rows that come
    from an old list may lack pods that have run since, and a pod that has run is never created again.
    """
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
    times = sorted(str(observed.gone_at.get(task.pod_name)) for task in lost)
    message = (
        f"The pods of {listing(task.name for task in lost)} were deleted from outside while the group waited "
        "for its place: they were created again."
    )
    note = Note(key=f"again:{times[-1]}", reason="PodsMadeAgain", message=message)
    record(lease, [note, *([DomainOfPods(domain.uid)] if domain else [])])
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
