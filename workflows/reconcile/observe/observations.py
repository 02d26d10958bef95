"""The observer's rows about a group: its pods, its objects, the events of its scheduler."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Exists, OuterRef, QuerySet
from pydantic_core import from_json

from pools import conditions
from pools.models import Cluster, Node
from pools.values.freshness import OBSERVER_SILENCE
from scheduling.backends.base import ReadBack, RoomLoss
from scheduling.backends.registry import installed
from scheduling.nodes.node_health import NodeHealth
from web.database.model_rows import Columns
from web.times import read_instant
from workflows.explain.obstacles import OccupiedNode
from workflows.feasibility.verdict.sentences import ANOTHER_WORKFLOW
from workflows.homes import at_home
from workflows.lifecycle.domain_health import DELETED_REASON, NVLINK_READY, DomainNode, domain_nodes
from workflows.lifecycle.evidence import DeletionTraces, Successor
from workflows.lifecycle.pod_status import NO_TRACES
from workflows.lifecycle.statuses import TERMINAL, TaskStatus
from workflows.models import Event, ObservedObject, ObservedPod, TaskGroup
from workflows.nodes.health import node_policy, unhealthy_nodes
from workflows.reconcile.assess.follow import ObservedPods
from workflows.reconcile.view.group_reader import parent_kinds
from workflows.reconcile.view.group_view import GroupView, TaskView, exit_actions_of, uncounted_tries_of
from workflows.values.observation import (
    DISRUPTION,
    POD_COLUMNS,
    POD_GROUP,
    PREEMPTED,
    PodSeen,
)

EVICTION_AGE = timedelta(minutes=5)
MOST_EVENTS = 20
MOST_CLAIM_EVENTS = 200
UNPREPARED = "FailedPrepareDynamicResources"
UNMOUNTED, UNCLAIMED = "FailedMount", "FailedResourceClaimCreation"
EVENT_AGE = timedelta(hours=1)
AFTER_VOLUMES = ("Pulling", "Pulled", "BackOff", "Failed", "Created", "Started")
"""Reasons of a kubelet's events on containers, which it looks at once claims and volumes are ready."""

"""The kubelet counts repeated events up, and only each doubling is a row: the last may be old."""

MOST_POD_GROUPS = 20
MOST_NODES = 32
MOST_PODS = 500


def observed_pods(view: GroupView) -> ObservedPods:
    """The pods of the group's live tasks as the observer last saw them."""
    settled = _settled_pods(view)
    others = [task.pod_name for task in view.live if task.pod_name not in settled]
    pods, gone_at = _read_pods(view, others)
    names = {pod.node_name for pod in pods.values()} | {pod.node_name for pod in settled.values()}
    nodes = unhealthy_nodes(cluster_of(view), names - {""}, backend=view.backend)
    ended = {pod.name for pod in pods.values() if pod.phase == "Failed" or pod.absent or pod.deleting}
    out_of_domain = _out_of_domain(view, ended=ended)
    domain_deleted = view.placement.attempts and domain_was_deleted(view)
    room_lost = _room_lost(view)
    doubtful = {
        pod.name
        for pod in settled.values()
        if room_lost
        or pod.node_name in nodes
        or pod.name in out_of_domain
        or (domain_deleted and pod.digest.get("claims"))
    }
    if doubtful:
        again, gone_meanwhile = _read_pods(view, doubtful)
        pods, gone_at = pods | again, gone_at | gone_meanwhile
    pods = settled | pods
    away = any(node.is_away for node in nodes.values())
    ending = [
        t
        for t in view.live
        if (t.pod_name not in settled or t.pod_name in doubtful)
        and (domain_deleted or t.pod_name in out_of_domain or _has_ended(pods.get(t.pod_name), nodes))
    ]
    return ObservedPods(
        pods=pods,
        settled=settled.keys() - doubtful,
        gone_at=gone_at,
        nodes_gone=_nodes_gone(view, pods) if gone_at else (),
        evictions=evictions(view) if gone_at else (),
        exit_actions=_exit_actions(view, ending),
        uncounted_tries=_uncounted_tries(view, ending),
        unfollowed=_unfollowed(view, gone_at.values()) if gone_at else None,
        nodes=nodes,
        lost_after=lost_after(view) if away or out_of_domain else None,
        out_of_domain=out_of_domain,
        domain_deleted=domain_deleted,
        traces=_traces(view, pods) if gone_at else NO_TRACES,
        room_lost=room_lost,
    )


def _room_lost(view: GroupView) -> RoomLoss | None:
    """How the scheduler took the gang's room back; None if it has not, or is not one that gives it."""
    scheduler = installed().get(view.placement.terms.scheduler_type)
    if scheduler is None or (admission := scheduler.admission) is None:
        return None
    losses = {
        str(row["metadata"]["name"]): lost
        for row in pod_groups(view)
        if (lost := admission.admission(row).lost) is not None
    }
    if not losses:
        return None
    present = view.pod_group_names.values()
    return next((losses[name] for name in present if name in losses), None)  # not of an earlier attempt


_MARKS = [
    json.dumps({"containers": [{"state": "waiting"}]}),
    json.dumps({"conditions": [{"type": DISRUPTION}]}),
    json.dumps({"conditions": [{"reason": PREEMPTED}]}),
]
"""The parts of a running pod's digest that its task's row says nothing of."""
_SETTLED = """
    SELECT name, uid, node_name, pod_ip, resource_version, CASE WHEN %(nvlink)s THEN digest -> 'claims' END
      FROM workflows_observedpod
     WHERE cluster_id = %(cluster_id)s AND namespace = %(namespace)s AND group_uuid = %(group)s
       AND phase = 'Running' AND NOT absent AND NOT deleting
       AND NOT digest @> ANY(%(marks)s::jsonb[])
"""


def _settled_pods(view: GroupView) -> dict[str, PodSeen]:
    """The running pods of which the rows of their tasks say all that there is, without their digests.

    When one pod of a gang of 1,000 changes, these are the other 999. Of their digests the claims are read,
    and only where pods have some.
    """
    running = {t.pod_name: (t.node_name, t.pod_ip) for t in view.tasks if t.status == TaskStatus.RUNNING}
    if not running:
        return {}
    with connection.cursor() as cursor:
        values: dict[str, Any] = {"group": view.uuid, "nvlink": view.placement.nvlink, "marks": _MARKS}
        cursor.execute(_SETTLED, _home(view) | values)
        rows = cursor.fetchall()
    namespace, group = view.placement.terms.namespace, view.uuid
    return {
        name: PodSeen(
            namespace=namespace,
            name=name,
            uid=uid,
            group_uuid=group,
            phase="Running",
            node_name=node,
            pod_ip=address,
            digest={"claims": from_json(claims)} if claims else {},
            resource_version=version,
        )
        for name, uid, node, address, version, claims in rows
        if running.get(name) == (node, address)
    }


_COLUMN_OF = {field.name: str(field.column) for field in ObservedPod._meta.concrete_fields}  # noqa: SLF001 -- public
_OF_GROUP = f"""
    {", ".join(_COLUMN_OF[name] for name in POD_COLUMNS)} FROM workflows_observedpod
     WHERE cluster_id = %(cluster_id)s AND namespace = %(namespace)s AND group_uuid = %(group)s
"""
_PODS = f"SELECT CASE WHEN absent THEN seen_at END, {_OF_GROUP} AND name = ANY(%(names)s)"
_KEPT_PODS = f"SELECT {_OF_GROUP} AND NOT absent AND NOT deleting AND digest ? 'kept_by' ORDER BY name"


def _read_pods(view: GroupView, names: Collection[str]) -> tuple[dict[str, PodSeen], dict[str, datetime]]:
    """These pods in full by name, and since when each that is gone is missed."""
    pods: dict[str, PodSeen] = {}
    gone_at: dict[str, datetime] = {}
    if not names:
        return pods, gone_at
    with connection.cursor() as cursor:
        cursor.execute(_PODS, {**_home(view), "group": view.uuid, "names": list(names)})
        rows = cursor.fetchall()
    for since, *columns in rows:
        pod = _pod(columns)
        pods[pod.name] = pod
        if since is not None:
            gone_at[pod.name] = since
    return pods, gone_at


def _pod(columns: Sequence[Any]) -> PodSeen:
    values = dict(zip(POD_COLUMNS, columns, strict=True))
    return PodSeen(**{**values, "digest": from_json(values["digest"])})


def lost_after(view: GroupView) -> timedelta | None:
    """How long a node may be away before it is lost, by its pool as it is now; None for ever."""
    return node_policy(view.placement.terms.pool).lost_after


def _out_of_domain(view: GroupView, *, ended: Collection[str]) -> dict[str, datetime]:
    """Pods whose node has left the group's ComputeDomain and is still not ready there, and since when.

    Where pods have ``ended``, nodes of their peers count that no row says yet to have left; their own do
    not, because a node leaves its domain when no pod holds its channel any more. After a time in which nobody
    followed the cluster the time counts anew: the domain's row may be from before.
    """
    left = [task for task in view.live if _may_be_out(task, ended)]
    if not left or not view.placement.attempts:
        return {}
    domain = compute_domain_nodes(view) or ()
    ready = {node.name for node in domain if node.is_ready}
    cluster = Cluster.objects.filter(pk=cluster_of(view))
    followed_from = cluster.values_list("unobserved_until", flat=True).first()
    return {
        task.pod_name: max(since, followed_from or since)
        for task in left
        if domain and task.node_name not in ready and (since := task.nvlink_left_at or view.now)
    }


def _may_be_out(task: TaskView, ended: Collection[str]) -> bool:
    """Whether a task's node has left the domain by its row, or may have since while a peer ended."""
    if task.nvlink_left_at is not None or not ended:
        return task.nvlink_left_at is not None
    runs = task.status == TaskStatus.RUNNING and task.pod_name not in ended
    return runs and task.nvlink_joined_at is not None


def _traces(view: GroupView, pods: Mapping[str, PodSeen]) -> DeletionTraces:
    """Possible reasons why pods are gone: marks on the pod groups, and who stands on their nodes since."""
    read_back = _read_back(view)
    rows = ObservedObject.objects.filter(kind=POD_GROUP, group_uuid=view.uuid, **_home(view))
    marks = list(rows.values_list("digest__annotations", flat=True)[:MOST_POD_GROUPS])
    stale_since = _of_present_attempt(view, _latest(marks, read_back.stale))
    never_stale = stale_since is None or any(gang.never_stale for gang in view.gangs.values())
    nodes = sorted({pod.node_name for pod in pods.values() if pod.absent} - {""})
    return DeletionTraces(
        priority=view.placement.priority,
        evicted_at=_latest(marks, read_back.evicted),
        stale_since=stale_since,
        stale_grace=None if never_stale else read_back.stale_grace,
        successors=cache(lambda: _successors(view, nodes)),
    )


def _of_present_attempt(view: GroupView, time: datetime | None) -> datetime | None:
    """The time of a mark, None if the mark is on a pod group of the attempt before."""
    began_at = view.row.attempt_began_at
    return None if time is not None and began_at is not None and time < began_at else time


def _latest(marks: Iterable[Mapping[str, str] | None], annotation: str) -> datetime | None:
    """The latest time in one annotation of several pod groups; None where there is none."""
    times = (read_instant((of_one or {}).get(annotation)) for of_one in marks if annotation)
    return max((time for time in times if time is not None), default=None)


def _successors(view: GroupView, nodes: Sequence[str]) -> tuple[Successor, ...]:
    """The pods of other groups on the first of these nodes. Two queries, each by an index."""
    rows = ObservedPod.objects.filter(
        cluster_id=cluster_of(view), absent=False, node_name__in=nodes[:MOST_NODES]
    )
    placed = [
        (node, group, since)
        for node, group, conditions in rows.exclude(group_uuid=view.uuid).values_list(
            "node_name", "group_uuid", "digest__conditions"
        )[:MOST_PODS]
        if (since := _placed_at(conditions)) is not None
    ]
    priorities = dict(
        TaskGroup.objects.filter(pk__in={group for _, group, _ in placed}).values_list(
            "pk", "placement__priority"
        )
    )
    return tuple(
        Successor(node, since, priorities[group] or "NORMAL")
        for node, group, since in placed
        if group in priorities
    )


def _placed_at(conditions: Iterable[Mapping[str, Any]] | None) -> datetime | None:
    scheduled = (c for c in conditions or () if c.get("type") == "PodScheduled" and c.get("status") == "True")
    return next((read_instant(condition.get("since")) for condition in scheduled), None)


def _unfollowed(view: GroupView, times: Iterable[datetime]) -> tuple[datetime, datetime] | None:
    """The time in which nobody followed the cluster, if pods were missed when it ended."""
    cluster = Cluster.objects.filter(pk=cluster_of(view)).first()
    if cluster is None or cluster.unobserved_from is None or cluster.unobserved_until is None:
        return None
    begin, end = cluster.unobserved_from, cluster.unobserved_until
    return (begin, end) if any(end <= time <= end + OBSERVER_SILENCE for time in times) else None


def claims_of(view: GroupView, pod_names: Collection[str]) -> list[str] | None:
    """The claims that these pods were given, by their last digests; None if that of a pod is not known."""
    rows = ObservedPod.objects.filter(**_home(view), group_uuid=view.uuid, name__in=pod_names)
    claims = [names for names in rows.values_list("digest__claims", flat=True) if names]
    return [name for names in claims for name in names] if len(claims) == len(pod_names) else None


def kept_pods(view: GroupView, pod_names: Collection[str]) -> list[PodSeen]:
    """Those of these pods that stay although their own containers have ended (``digest.kept_by``)."""
    with connection.cursor() as cursor:
        cursor.execute(_KEPT_PODS, {**_home(view), "group": view.uuid})
        pods = map(_pod, cursor.fetchall())
    return [pod for pod in pods if pod.name in pod_names]


def _nodes_gone(view: GroupView, pods: Mapping[str, PodSeen]) -> frozenset[str]:
    """Nodes of absent pods that were removed from the cluster, as far as its nodes are known.

    One that joined after a pod was placed on it was removed as well, and has come back since by its name.
    """
    absent_pods = [pod for pod in pods.values() if pod.absent and pod.node_name]
    if not absent_pods or not knows_nodes(view):
        return frozenset()
    names = {pod.node_name for pod in absent_pods}
    rows = Node.objects.filter(cluster_id=cluster_of(view), name__in=names)
    joined = dict(rows.values_list("name", "created_at"))
    return frozenset(
        pod.node_name
        for pod in absent_pods
        if pod.node_name not in joined or _is_younger(joined[pod.node_name], pod)
    )


def _is_younger(joined: datetime | None, pod: PodSeen) -> bool:
    """Whether a node joined after a pod was placed on it, by the times that both have."""
    placed = _placed_at(pod.digest.get("conditions"))
    return joined is not None and placed is not None and placed < joined


def _has_ended(pod: PodSeen | None, nodes: Mapping[str, NodeHealth]) -> bool:
    """Whether a pod may have ended; one on a node that is away may be lost with it."""
    if pod is None:
        return False
    node = nodes.get(pod.node_name)
    is_away = node is not None and node.is_away
    return pod.absent or is_away or pod.phase not in ("Pending", "Running") or _unstartable(pod)


def _unstartable(pod: PodSeen) -> bool:
    """Whether a container waits for a reason that the digest keeps: perhaps one that ends the task."""
    return any(c.get("state") == "waiting" for c in pod.digest.get("containers") or ())


def exit_actions_of_live_tasks(view: GroupView) -> Mapping[int, Mapping[str, str]]:
    """The exit actions of every live task."""
    return _exit_actions(view, view.live)


def uncounted_tries_of_live_tasks(view: GroupView) -> Mapping[int, int]:
    """The same of their tries that do not count as retries."""
    return _uncounted_tries(view, view.live)


def _exit_actions(view: GroupView, tasks: Sequence[TaskView]) -> Mapping[int, Mapping[str, str]]:
    return exit_actions_of(view.row, [task.pk for task in tasks]) if tasks else {}


def _uncounted_tries(view: GroupView, tasks: Sequence[TaskView]) -> Mapping[int, int]:
    """No query for tasks that were not tried before."""
    retried = [task.pk for task in tasks if task.retry_id]
    return uncounted_tries_of(view.row, retried) if retried else {}


def evictions(view: GroupView) -> Sequence[str]:
    """The messages of the scheduler's recent evictions of this group's pods, oldest first."""
    rows = Event.objects.filter(
        workflow_id=view.row.workflow_id,
        group=view.row,
        reason__in=_read_back(view).evicting,
        time__gte=view.now - EVICTION_AGE,
    )
    return tuple(rows.order_by("time", "id").values_list("message", flat=True))


_POD_GROUP = Columns(ObservedObject, only=("name", "digest"))
_POD_GROUPS = f"""
    SELECT {_POD_GROUP.sql("o")} FROM workflows_observedobject AS o
     WHERE kind = %(kind)s AND group_uuid = %(group)s
       AND cluster_id = %(cluster_id)s AND namespace = %(namespace)s
"""  # noqa: S608 -- names of columns


def pod_groups(view: GroupView) -> tuple[dict[str, Any], ...]:
    """The pod groups as manifests with status, as scheduler backends read them."""
    with connection.cursor() as cursor:
        cursor.execute(_POD_GROUPS, {"kind": POD_GROUP, "group": view.uuid, **_home(view)})
        return tuple(_POD_GROUP.instance(row).as_manifest() for row in cursor.fetchall())


def names_of_pod_groups(view: GroupView) -> frozenset[tuple[str, str]]:
    """Its pod groups, and what stands above them, by kind and name."""
    kinds = [POD_GROUP, *(kind.name for kind in parent_kinds(view.placement))]
    rows = ObservedObject.objects.filter(kind__in=kinds, group_uuid=view.uuid, **_home(view))
    return frozenset(rows.values_list("kind", "name"))


def pod_group_events(view: GroupView) -> tuple[dict[str, Any], ...]:
    """The scheduler's last events about the group's pod groups, newest first."""
    rows = Event.objects.filter(
        workflow_id=view.row.workflow_id, group=view.row, task_name="", reason__in=_read_back(view).waiting
    ).order_by("-time", "-id")
    return tuple({"reason": row.reason, "message": row.message} for row in rows[:MOST_EVENTS])


def pod_events(view: GroupView, *reasons: str) -> dict[tuple[str, int | None], str]:
    """The last message of events of these reasons on a pod, by task and try, newest first.

    Left out are those of pods whose kubelet has gone on since.
    """
    own = Event.objects.filter(workflow_id=view.row.workflow_id, group=view.row)
    later = own.filter(
        task_name=OuterRef("task_name"),
        retry_id=OuterRef("retry_id"),
        time__gte=OuterRef("time"),
        reason__in=AFTER_VOLUMES,
    )
    rows = own.filter(~Exists(later), reason__in=reasons, time__gte=view.now - EVENT_AGE)
    rows = rows.order_by("-time", "-id")
    messages: dict[tuple[str, int | None], str] = {}
    for task, retry, message in rows.values_list("task_name", "retry_id", "message")[:MOST_CLAIM_EVENTS]:
        messages.setdefault((task, retry), message)
    return messages


def compute_domain_observed(view: GroupView) -> bool:
    """Whether the group's ComputeDomain was reported, ending or not, and none that took its place."""
    return _compute_domains(view).exists()


def compute_domain_digest(view: GroupView) -> Mapping[str, Any] | None:
    """The group's ComputeDomain as last observed; None if there is none or it is ending."""
    return _compute_domains(view).filter(deleting=False).values_list("digest", flat=True).first()


def compute_domain_uid(view: GroupView) -> str:
    """The uid of the group's ComputeDomain as last observed; empty if there is none or it is ending."""
    return _compute_domains(view).filter(deleting=False).values_list("uid", flat=True).first() or ""


def _compute_domains(view: GroupView) -> QuerySet[ObservedObject]:
    """The row of the group's own ComputeDomain, of any by its name while its uid is not known."""
    own = {"uid": view.domain_uid} if view.domain_uid else {}
    return ObservedObject.objects.filter(kind="ComputeDomain", group_uuid=view.uuid, **own, **_home(view))


def compute_domain_nodes(view: GroupView) -> tuple[DomainNode, ...] | None:
    """The nodes that the group's ComputeDomain lists; None if there is none or it is ending."""
    digest = compute_domain_digest(view)
    return None if digest is None else domain_nodes(digest.get("status"))


def domain_was_deleted(view: GroupView) -> bool:
    """Whether the group's ComputeDomain was read to be deleted under its tasks, and is not there again."""
    condition = conditions.find(view.row.conditions, NVLINK_READY)
    is_concluded = condition is not None and condition["reason"] == DELETED_REASON
    return is_concluded and compute_domain_digest(view) is None


def claim_template_observed(view: GroupView) -> bool:
    return ObservedObject.objects.filter(
        kind="ResourceClaimTemplate", group_uuid=view.uuid, **_home(view)
    ).exists()


def compute_domain_owners(view: GroupView, domains: Mapping[str, str]) -> tuple[OccupiedNode, ...]:
    """The owners of other groups' ComputeDomains; ``domains`` has the uid that each node's label names."""
    others = {node: uid for node, uid in domains.items() if uid != view.domain_uid}
    if not others:
        return ()
    rows = ObservedObject.objects.filter(
        kind="ComputeDomain", cluster_id=cluster_of(view), uid__in=set(others.values())
    )
    by_uid = {row.uid: row for row in rows.only("uid", "name", "group_uuid", "deleting")}
    named = at_home(rows).values_list("group_uuid", flat=True)  # a copy elsewhere names one that is no owner
    groups = named_groups(set(named))
    nodes = []
    for node, uid in others.items():
        row = by_uid.get(uid)
        group = groups.get(row.group_uuid) if row else None
        if group is not None and group.pk == view.uuid:
            continue
        ended = group is None or group.status in TERMINAL
        nodes.append(
            OccupiedNode(
                node=node,
                domain=row.name if row else uid,
                workflow=workflow_name(view, group) if group else "",
                ended=ended,
                removing=bool(row and row.deleting),
            )
        )
    return tuple(nodes)


def named_groups(groups: Collection[UUID]) -> dict[UUID, TaskGroup]:
    """These groups with what ``workflow_name`` needs and their status: their other columns are large."""
    rows = TaskGroup.objects.select_related("workflow")
    return rows.only("status", "workflow__name", "workflow__pool_name").in_bulk(groups)


def workflow_name(view: GroupView, group: TaskGroup) -> str:
    """A workflow's name if every reader of this group's row may know it: if it is in the same pool."""
    workflow = group.workflow
    return workflow.name if workflow.pool_name == view.placement.terms.pool else ANOTHER_WORKFLOW


def node_labels(view: GroupView) -> dict[str, dict[str, str]]:
    """The labels of all nodes of the group's cluster."""
    return dict(Node.objects.filter(cluster_id=cluster_of(view)).values_list("name", "labels"))


def labels_of_closed_nodes(view: GroupView) -> list[dict[str, str]]:
    """The labels of each node of the group's cluster that is cordoned or not ready."""
    nodes = Node.objects.filter(cluster_id=cluster_of(view)).exclude(unschedulable=False, ready=True)
    return list(nodes.values_list("labels", flat=True))


def _read_back(view: GroupView) -> ReadBack:
    scheduler = installed().get(view.placement.terms.scheduler_type)
    return scheduler.read_back if scheduler else ReadBack()


def knows_nodes(view: GroupView) -> bool:
    """Whether any node of its cluster was observed: without one, labels are unknown."""
    return Node.objects.filter(cluster_id=cluster_of(view)).exists()


def _home(view: GroupView) -> dict[str, str]:
    """Where the group's objects are; an object that names it anywhere else is somebody else's."""
    return {"cluster_id": cluster_of(view), "namespace": view.placement.terms.namespace}


def cluster_of(view: GroupView) -> str:
    """The uid of the cluster of its objects; empty while no cluster was reached."""
    return view.placement.terms.cluster_uid or view.backend.cluster_id or ""
