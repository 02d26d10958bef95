"""Rules over the objects of each cluster and the rows of their groups."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from doctor.facts import ClusterObject, Facts, Finding, GroupRow, ObservedCluster, Repair, Tolerances, TryRow
from doctor.rules.rows import LIVE, about
from doctor.turns import judged_at, waits

COMPUTE_DOMAIN = "ComputeDomain.resource.nvidia.com"
CLAIM = "ResourceClaim.resource.k8s.io"
TEMPLATE = "ResourceClaimTemplate.resource.k8s.io"
SECOND = timedelta(seconds=1)
CREATED = ("SCHEDULING", "INITIALIZING", "RUNNING")


def object_rules(facts: Facts, limits: Tolerances) -> Iterator[Finding]:
    for cluster in facts.clusters:
        of_group: dict[UUID | None, list[ClusterObject]] = defaultdict(list)
        for obj in cluster.objects:
            if not obj.is_shared:
                of_group[_owner(obj, facts)].append(obj)
        for uuid, objects in of_group.items():
            group = facts.groups.get(uuid) if uuid else None
            yield from _unwanted(cluster, facts, group, objects, limits)
            # a copy elsewhere says nothing about the group
            own = [obj for obj in objects if group is None or _is_home(cluster, group, obj)]
            yield from _two_pods(cluster, group, own)
            yield from _ending_under_pods(cluster, group, own)
            if group is not None and group.released_at is None:
                yield from _doubled_objects(cluster, group, own)
                yield from _incomplete(judged_at(group, facts, limits), cluster, group, own, limits)
        for group in facts.groups.values():
            at_home = group.cluster == cluster.uid and group.released_at is None
            if at_home and not waits(group, facts, limits):  # it hears of its pods in its turn
                yield from _vanished(cluster, group, of_group.get(group.uuid, ()))


def _is_home(cluster: ObservedCluster, group: GroupRow, obj: ClusterObject) -> bool:
    return (group.cluster, group.namespace) == (cluster.uid, obj.namespace)


def _owner(obj: ClusterObject, facts: Facts) -> UUID | None:
    return facts.owners.get(obj.pod, obj.group) if obj.pod else obj.group


def _unwanted(
    cluster: ObservedCluster,
    facts: Facts,
    group: GroupRow | None,
    objects: Sequence[ClusterObject],
    limits: Tolerances,
) -> Iterator[Finding]:
    """Objects without a row that needs them in that cluster and namespace."""
    for obj in objects:
        since = max(filter(None, (obj.created, group.released_at if group else None)), default=None)
        old = since is None or facts.now - since > limits.orphan
        if group is None:
            if obj.api not in (CLAIM, TEMPLATE) and old:  # others create those, maybe for other tenants
                yield _leaked(cluster, obj, "unknown", "no task group needs it", since=since, group=group)
        elif not _is_home(cluster, group, obj):
            if obj.api not in (CLAIM, TEMPLATE) and old:
                home = f"{group.namespace} of cluster {group.cluster}"
                yield _leaked(
                    cluster, obj, "elsewhere", f"its group belongs in {home}", since=since, group=group
                )
        elif group.released_at is not None:
            yield from _after_release(cluster, group, obj, since=since, old=old)
        elif old and not _was_cleared_later(cluster, group) and (why := _why_unwanted(group, obj)):
            yield _leaked(cluster, obj, *why, since=since, group=group)


def _why_unwanted(group: GroupRow, obj: ClusterObject) -> tuple[str, str] | None:
    """The rule and the reason by which a group that is not released does not need an object of its own."""
    if not group.touched:
        return "untouched", "its group was never created there"
    if obj.kind != "Pod" or not group.tries:
        return None
    if obj.name in _earlier_pods(group):
        return "earlier-attempt", "its attempt was cleared away"
    if all(obj.name != task_try.pod_name for task_try in group.tries):
        return "stranger", "no try of a task of its group has that name"
    return None


def _was_cleared_later(cluster: ObservedCluster, group: GroupRow) -> bool:
    """Whether an attempt was cleared away after the cluster was listed: it may have been deleted between."""
    cleared_at = group.attempt.cleared_at if group.attempt else None
    return cleared_at is not None and cleared_at >= cluster.listed_at


def _earlier_pods(group: GroupRow) -> set[str]:
    """Names of pods whose attempt was cleared away."""
    if group.attempt is None or group.attempt.clearing:
        return set()
    firsts = {task_try.task: task_try.first_retry for task_try in group.tries if task_try.latest}
    return {
        task_try.pod_name
        for task_try in group.tries
        if task_try.first_retry < firsts.get(task_try.task, task_try.first_retry)
    }


def _after_release(
    cluster: ObservedCluster, group: GroupRow, obj: ClusterObject, *, since: datetime | None, old: bool
) -> Iterator[Finding]:
    released = group.released_at
    if released is None or released >= cluster.listed_at:
        return  # it may have been deleted between the list and the release
    if obj.created is not None and obj.created < released:
        message = f"Released at {released:%H:%M:%S}, and its {obj.label} still exists."
        yield about(
            group,
            kind="lost",
            rule="released-early",
            message=message,
            since=released,
            obj=obj.label,
            repair=_repair_by_sweep(obj),
        )
    elif old:
        yield _leaked(cluster, obj, "released", "its group was released", since=since, group=group)


def _leaked(
    cluster: ObservedCluster,
    obj: ClusterObject,
    rule: str,
    why: str,
    *,
    since: datetime | None,
    group: GroupRow | None,
) -> Finding:
    ending = ", and is being deleted" if obj.deleting_since else ""
    return Finding(
        kind="leaked",
        rule=rule,
        message=f"{obj.label} exists although {why}{ending}.",
        since=since,
        backend=cluster.backend,
        workflow=group.workflow if group else "",
        group=group.name if group else str(obj.group or ""),
        object=obj.label,
        repair=_repair_by_sweep(obj) if rule in ("unknown", "released") else "",
        cluster=cluster.uid,
        group_uuid=obj.group,
    )


def _repair_by_sweep(obj: ClusterObject) -> Repair:
    """The sweep deletes what the service created for a group; objects that others created go with those.

    It never deletes an object that names no group: a person must decide about that.
    """
    is_left = obj.deleting_since or obj.api in (CLAIM, TEMPLATE) or obj.group is None
    return "" if is_left else "sweep"


def _two_pods(
    cluster: ObservedCluster, group: GroupRow | None, objects: Sequence[ClusterObject]
) -> Iterator[Finding]:
    pods: dict[str, list[ClusterObject]] = defaultdict(list)
    for obj in objects:
        if obj.kind == "Pod" and obj.task and obj.active and not obj.deleting_since:
            pods[obj.task].append(obj)
    for pods_of_task in pods.values():
        if len(pods_of_task) > 1:
            labels = ", ".join(sorted(f"{pod.namespace}/{pod.name}" for pod in pods_of_task))
            yield Finding(
                kind="doubled",
                rule="pods",
                message=f"{len(pods_of_task)} pods of one task at once: {labels}.",
                since=max(filter(None, (pod.created for pod in pods_of_task)), default=None),
                backend=cluster.backend,
                workflow=group.workflow if group else "",
                group=group.name if group else "",
                object=labels,
                cluster=cluster.uid,
                group_uuid=pods_of_task[0].group,
            )


def _doubled_objects(
    cluster: ObservedCluster, group: GroupRow, objects: Sequence[ClusterObject]
) -> Iterator[Finding]:
    """One ComputeDomain for each group, one pod group for each generation and set."""
    del cluster
    domains = [obj for obj in objects if obj.api == COMPUTE_DOMAIN]
    if len(domains) > 1:
        yield _doubled(group, "compute-domains", domains)
    if not group.pod_group:
        return
    by_generation: dict[str, list[ClusterObject]] = defaultdict(list)
    for obj in objects:
        if obj.is_pod_group:
            by_generation[_generation(obj, group)].append(obj)
    for pod_groups in by_generation.values():
        forms = {pod_group.name.count("-") > 1 for pod_group in pod_groups}
        if (
            len({(pod_group.api, pod_group.namespace) for pod_group in pod_groups}) > 1
            or len(forms) > 1
            or _shares_name(pod_groups)
        ):
            yield _doubled(group, "pod-groups", pod_groups)


def _generation(obj: ClusterObject, group: GroupRow) -> str:
    """The generation in a pod group's name: ``<group>[-<generation>]``, in a tree with places behind it."""
    suffix = obj.name.removeprefix(group.uuid.hex).strip("-")
    return suffix.partition("-")[0] if obj.name.startswith(group.uuid.hex) else obj.name


def _shares_name(pod_groups: Sequence[ClusterObject]) -> bool:
    return len(pod_groups) > 1 and len({pod_group.name for pod_group in pod_groups}) < len(pod_groups)


def _doubled(group: GroupRow, rule: str, objects: Sequence[ClusterObject]) -> Finding:
    labels = ", ".join(sorted(f"{obj.api} {obj.namespace}/{obj.name}" for obj in objects))
    message = f"{len(objects)} for one group and generation: {labels}."
    since = max(filter(None, (obj.created for obj in objects)), default=None)
    return about(group, kind="doubled", rule=rule, message=message, since=since, obj=labels)


def _incomplete(
    at: datetime,
    cluster: ObservedCluster,
    group: GroupRow,
    objects: Sequence[ClusterObject],
    limits: Tolerances,
) -> Iterator[Finding]:
    """A gang exists completely, or is being created or deleted for no longer than the limit."""
    pods = [obj for obj in objects if obj.kind == "Pod" and obj.active and not obj.deleting_since]
    since = min(filter(None, (pod.created for pod in pods)), default=None)
    old = since is None or at - since > limits.half_made
    if pods and old and group.pod_group and not any(obj.api == group.pod_group for obj in objects):
        unserved = "" if group.pod_group not in cluster.unserved else " (its kind is not served)"
        message = f"{len(pods)} pods exist without their pod group{unserved}."
        yield about(
            group,
            kind="half-made",
            rule="no-pod-group",
            message=message,
            since=since,
            repair="enqueue",
            unsure=True,
        )
    if pods and old and group.nvlink and not any(obj.api == COMPUTE_DOMAIN for obj in objects):
        message = f"{len(pods)} pods of an NVLink group exist without a ComputeDomain."
        yield about(
            group,
            kind="half-made",
            rule="no-domain",
            message=message,
            since=since,
            repair="enqueue",
            unsure=True,
        )
    yield from _fewer_pods(at, group, objects, limits)


def _fewer_pods(
    at: datetime, group: GroupRow, objects: Sequence[ClusterObject], limits: Tolerances
) -> Iterator[Finding]:
    pod_names = {obj.name for obj in objects if obj.kind == "Pod"}
    unmade = [task_try for task_try in group.tries if task_try.latest and task_try.status == "PROCESSING"]
    began = [task_try.processing_since or group.processing_since or group.submitted for task_try in unmade]
    if group.attempt is not None:
        began.append(group.attempt.begins)
        if group.attempt.clearing:
            return
    if group.status not in LIVE or not unmade or at - max(began) <= limits.half_made:
        return
    absent = [task_try for task_try in unmade if task_try.pod_name not in pod_names]
    message = f"{len(absent)} of {_latest(group)} pods do not exist while other objects of the group do."
    if group.waiting:
        message += f" {group.waiting}"
    yield about(
        group, kind="half-made", rule="fewer-pods", message=message, since=max(began), repair="enqueue"
    )


def _latest(group: GroupRow) -> int:
    return sum(task_try.latest for task_try in group.tries)


def _vanished(
    cluster: ObservedCluster, group: GroupRow, objects: Sequence[ClusterObject]
) -> Iterator[Finding]:
    """Tasks that run according to their rows, without a pod that does."""
    pods_by_name = {
        obj.name: obj for obj in objects if obj.kind == "Pod" and obj.namespace == group.namespace
    }
    for task_try in group.tries:
        if not (task_try.latest and task_try.status in CREATED) or not _created_before_list(
            task_try, group, cluster
        ):
            continue
        pod = pods_by_name.get(task_try.pod_name)
        if pod is None:
            message = (
                f"Task {task_try.name} is {task_try.status} and its pod {task_try.pod_name} does not exist."
            )
        elif not pod.active:
            message = (
                f"Task {task_try.name} is {task_try.status} and its pod {task_try.pod_name} is {pod.phase}."
            )
        else:
            continue
        yield about(
            group,
            kind="lost",
            rule="unnoticed",
            message=message,
            since=None,
            obj=f"Pod {group.namespace}/{task_try.pod_name}",
            repair="enqueue",
            unsure=True,
        )


def _created_before_list(task_try: TryRow, group: GroupRow, cluster: ObservedCluster) -> bool:
    """Whether the pod was created before the cluster was listed."""
    created_at = task_try.scheduling_since or group.scheduling_since
    return created_at is not None and created_at < cluster.listed_at


def _ending_under_pods(
    cluster: ObservedCluster, group: GroupRow | None, objects: Sequence[ClusterObject]
) -> Iterator[Finding]:
    """A ComputeDomain must outlive the pods that use it.

    Pods are listed first: a ComputeDomain whose deletion began during the list may have waited for them.
    """
    running = [obj for obj in objects if obj.kind == "Pod" and obj.active and obj.node]
    for domain in objects:
        if domain.api != COMPUTE_DOMAIN or domain.deleting_since is None or not running:
            continue
        if domain.deleting_since + SECOND > cluster.listed_at:  # the cluster writes whole seconds
            continue
        yield Finding(
            kind="unsafe",
            rule="domain-ending",
            message=f"{domain.label} is being deleted and {len(running)} pods of its group are on nodes.",
            since=domain.deleting_since,
            backend=cluster.backend,
            workflow=group.workflow if group else "",
            group=group.name if group else str(domain.group or ""),
            object=domain.label,
            cluster=cluster.uid,
            group_uuid=domain.group,
            unsure=True,
        )
