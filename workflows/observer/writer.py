"""Writing a batch of observations into the rows and notifying the groups that it concerns.

One transaction for a batch: rows and notifications appear together, so no group is reconciled before what
it is notified of. Rows are upserted whole by their natural key; the observer that holds the cluster's lease
is their only writer, and holds it locked meanwhile. A change that is older than its row is not written,
unless a complete list had it. The usage of other tenants' pods is written in a transaction of its own, whose
failure stops nothing.
"""

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar, cast
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Case, F, Model, Q, Value, When
from pydantic_core import to_json

from pools.models import Cluster, ForeignUsage, Node
from pools.values.completeness import OTHERS, merged
from scheduling.backends.registry import installed
from scheduling.nodes.devices import NO_DEVICES, NodeDevices
from scheduling.nodes.taints import BARRING
from web.times import read_instant
from workflows.homes import Home, at_home, homes_of
from workflows.models import Event, ObservedObject, ObservedPod
from workflows.observer.device_rows import OFFERS_CHANNEL, offered_by, with_devices
from workflows.observer.inbox import Batch, ForeignUsageChanges, key_of
from workflows.observer.resource_rows import write_resources
from workflows.services import timeline
from workflows.services.notify import mark_due
from workflows.services.steps import database_now
from workflows.values.observation import (
    DOMAIN_LABEL,
    OBJECT_COLUMNS,
    POD_COLUMNS,
    EventSeen,
    ForeignUsageSeen,
    NodeSeen,
    ObjectSeen,
    PodSeen,
    ResourceSeen,
    is_older,
)
from workflows.values.pod_usage import NO_USAGE

Versioned = TypeVar("Versioned", PodSeen, ObjectSeen, NodeSeen, ResourceSeen)

UNFOLLOWED_AFTER = timedelta(seconds=60)
"""After so long a silence a scheduler may have ended a gang of which a task had ended: KAI's grace period."""

_POD_KEY = ("namespace", "name")
_OBJECT_KEY = ("kind", "namespace", "name")
_NAME_KEY = ("name",)
_RESOURCE_KEY = ("resource", "name")
_USAGE_FIELDS = ("gpu", "cpu", "memory", "storage", "pods")
_HEALTH_FIELDS = ("ready", "unschedulable", "conditions", "taints")
_BEFORE_FIELDS = ("name", "uid", "channel_since", "labels", "devices", "taints_since", *_HEALTH_FIELDS)
_NODE_FIELDS = (
    "uid",
    "labels",
    "taints",
    "taints_since",
    "allocatable",
    "devices",
    "unschedulable",
    "ready",
    "conditions",
    "created_at",
    "resource_version",
    "seen_at",
)


_TASKS = "SELECT pod_name, name, retry_id, group_id FROM workflows_task WHERE pod_name = ANY(%s)"
_LEFT = """
    SELECT DISTINCT group_uuid
      FROM unnest(%s::uuid[], %s::text[]) AS losing(group_uuid, namespace)
      JOIN workflows_observedpod USING (group_uuid, namespace) WHERE cluster_id = %s AND NOT absent
"""
_DELETE_OBJECTS = """
    DELETE FROM workflows_observedobject AS seen
     USING unnest(%s::text[], %s::text[], %s::text[]) AS gone(kind, namespace, name)
     WHERE (seen.kind, seen.namespace, seen.name) = (gone.kind, gone.namespace, gone.name)
       AND seen.cluster_id = %s
"""
_BEGIN = "SELECT clock_timestamp(), EXISTS (SELECT FROM pools_cluster WHERE uid = %s)"
_TYPES = {"group_uuid": "uuid", "deleting": "boolean", "absent": "boolean", "digest": "jsonb"}


def _upsert_statement(model: type[Model], names: Sequence[str], key: Sequence[str]) -> str:
    """Insert rows of a cluster, or write them whole where their key is there.

    Their values are one text of JSON: to quote each for an array takes longer than to write them.
    """
    column_of = {field.name: str(field.column) for field in model._meta.concrete_fields}  # noqa: SLF001 -- public
    columns = ", ".join(column_of[name] for name in names)
    typed = ", ".join(f"{name} {_TYPES.get(name, 'text')}" for name in names)
    written = [column_of[name] for name in (*names, "seen_at") if name not in key]
    return f"""
        INSERT INTO {model._meta.db_table} (cluster_id, seen_at, {columns})
        SELECT %(cluster)s, %(now)s, * FROM json_to_recordset(%(rows)s) AS seen({typed})
            ON CONFLICT (cluster_id, {", ".join(key)})
               DO UPDATE SET {", ".join(f"{column} = excluded.{column}" for column in written)}
    """  # noqa: S608, SLF001 -- names


_PODS = _upsert_statement(ObservedPod, POD_COLUMNS, _POD_KEY)
_OBJECTS = _upsert_statement(ObservedObject, OBJECT_COLUMNS, _OBJECT_KEY)


class TaskOfPod(NamedTuple):
    """The try that a pod is of."""

    name: str
    retry_id: int
    group_id: UUID


def write(cluster: str, batch: Batch) -> int:
    """Write a batch about one cluster; returns how many groups were notified."""
    with transaction.atomic(savepoint=False):
        now = _begin(cluster)
        _write_pods(cluster, _newest(cluster, batch, batch.pods, "workflows_observedpod", _POD_KEY), now)
        echoes = _echoes(cluster, batch.objects)
        _write_objects(
            cluster, _newest(cluster, batch, batch.objects, "workflows_observedobject", _OBJECT_KEY), now
        )
        nodes = _write_nodes(cluster, _newest(cluster, batch, batch.nodes, "pools_node", _NAME_KEY), now)
        resources = _newest(cluster, batch, batch.resources, "pools_observedresource", _RESOURCE_KEY)
        is_configured_anew = write_resources(cluster, resources, now)
        objects: list[PodSeen | ObjectSeen] = [*batch.pods, *batch.objects]
        tasks = _tasks_by_pod(event.name for event in batch.events if event.kind == "Pod")
        homes = homes_of(
            {obj.group_uuid for obj in objects}
            | {event.group for event in batch.events if event.group is not None}
            | {task.group_id for task in tasks.values()}
        )
        named_groups = _write_events(cluster, batch.events, now, tasks=tasks, homes=homes)
        _note(cluster, batch, now, moved=nodes.moved or is_configured_anew)
        owners = _owners(cluster, [obj for obj in objects if obj.uid not in echoes], homes)
        owners -= _losing_pods(cluster, [pod for pod in batch.pods if pod.group_uuid in owners], homes)
        groups = owners | named_groups | _on_nodes(cluster, nodes.health)
        if groups:
            mark_due(groups)
    return len(groups)


def _begin(cluster: str) -> datetime:
    """The database's clock; afterwards the cluster has a row."""
    with connection.cursor() as cursor:
        cursor.execute(_BEGIN, [cluster])
        now, is_known = cursor.fetchone()
    if not is_known:
        Cluster.objects.get_or_create(uid=cluster)
    return cast("datetime", now)


def _owners(cluster: str, objects: Sequence[PodSeen | ObjectSeen], homes: Mapping[UUID, Home]) -> set[UUID]:
    """The groups whose objects these are; an object that names a group from elsewhere notifies nobody."""
    return {obj.group_uuid for obj in objects if _is_home(homes.get(obj.group_uuid), cluster, obj.namespace)}


def _echoes(cluster: str, objects: Sequence[ObjectSeen]) -> set[str]:
    """The uids of pod groups that differ from their rows only in what the service itself writes to them."""
    own = frozenset[str]().union(*(s.admission.own_conditions for s in installed().values() if s.admission))
    written = [
        obj
        for obj in objects
        if any(_type(entry) in own and entry.get("status") == "True" for entry in _conditions(obj.digest))
    ]
    if not written:
        return set()
    rows = ObservedObject.objects.filter(cluster_id=cluster, group_uuid__in={o.group_uuid for o in written})
    before = {
        uid: (deleting, _without(own, digest))
        for uid, deleting, digest in rows.values_list("uid", "deleting", "digest")
    }
    return {
        obj.uid
        for obj in written
        if not obj.absent and before.get(obj.uid) == (obj.deleting, _without(own, obj.digest))
    }


def _conditions(digest: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return (digest.get("status") or {}).get("conditions") or ()


def _type(condition: Mapping[str, Any]) -> str:
    return str(condition.get("type"))


def _without(types: Container[str], digest: Mapping[str, Any]) -> str:
    """The digest as JSON in one order, without the conditions of these types."""
    others = [condition for condition in _conditions(digest) if _type(condition) not in types]
    content = {**digest, "status": {**(digest.get("status") or {}), "conditions": others}}
    return json.dumps(content, sort_keys=True)


def _losing_pods(cluster: str, pods: Sequence[PodSeen], homes: Mapping[UUID, Home]) -> set[UUID]:
    """Of ended groups those that still have pods, all of these being deleted or gone.

    Nothing is done for them before the last is gone, so no other end of a pod is worth a list of the rest.
    Pods of a lost node are what the group looks for by itself.
    """
    staying = {pod.group_uuid for pod in pods if not (pod.deleting or pod.absent)}
    losing = {pod.group_uuid for pod in pods if homes[pod.group_uuid].has_ended} - staying
    if not losing:
        return set()
    pairs = [(group, homes[group].namespace) for group in losing]  # each in this cluster
    with connection.cursor() as cursor:
        cursor.execute(_LEFT, [*map(list, zip(*pairs, strict=True)), cluster])
        return {group for (group,) in cursor.fetchall()}


def _is_home(home: Home | None, cluster: str, namespace: str) -> bool:
    return home is not None and (home.cluster, home.namespace) == (cluster, namespace)


def write_foreign_usage(cluster: str, changes: ForeignUsageChanges) -> None:
    """Write what other tenants' pods use, and whether they can be followed."""
    with transaction.atomic(savepoint=False):
        now = database_now()
        free = [usage.node for usage in changes.usage.values() if usage.amounts == NO_USAGE]
        if free:
            ForeignUsage.objects.filter(cluster_id=cluster, node__in=free).delete()
        ForeignUsage.objects.bulk_create(
            (
                _usage_row(cluster, usage, now)
                for _, usage in sorted(changes.usage.items())  # in one order: two observers cannot deadlock
                if usage.amounts != NO_USAGE
            ),
            update_conflicts=True,
            unique_fields=("cluster", "node"),
            update_fields=(*_USAGE_FIELDS, "shares", "seen_at"),
            batch_size=500,
        )
        if changes.problem is not None:
            completeness = merged({OTHERS: changes.problem}, now=now)
            Cluster.objects.filter(pk=cluster).update(completeness=completeness)


def _usage_row(cluster: str, usage: ForeignUsageSeen, now: datetime) -> ForeignUsage:
    amounts = dict(zip(_USAGE_FIELDS, usage.amounts, strict=True))
    return ForeignUsage(cluster_id=cluster, node=usage.node, shares=usage.shares, seen_at=now, **amounts)


def _note(cluster: str, batch: Batch, now: datetime, *, moved: bool) -> None:
    """Say of the cluster what was heard, and whether conditions must be evaluated anew."""
    news: dict[str, Any] = _heartbeat(now) if batch.is_reachable else {}
    if batch.problems:
        news["completeness"] = merged(batch.problems, now=now)
    if moved or "" in batch.problems.values():
        news["changes"] = F("changes") + 1
    if news:
        Cluster.objects.filter(pk=cluster).update(**news)


def _heartbeat(now: datetime) -> dict[str, Any]:
    """The cluster was heard now, perhaps after a silence in which it was not followed.

    Its conditions are evaluated anew then: they became Unknown.
    """
    is_late = Q(heartbeat_at__lt=now - UNFOLLOWED_AFTER)
    return {
        "heartbeat_at": now,
        "unobserved_from": Case(When(is_late, then=F("heartbeat_at")), default=F("unobserved_from")),
        "changes": F("changes") + Case(When(is_late, then=Value(1)), default=Value(0)),
        "unobserved_until": Case(When(is_late, then=Value(now)), default=F("unobserved_until")),
    }


def _newest(
    cluster: str,
    batch: Batch,
    changes: Sequence[Versioned],
    table: str,
    key_fields: Sequence[str],
) -> list[Versioned]:
    """The changes that are not older than their rows, each found by its whole key."""
    compared: dict[tuple[str, ...], Versioned] = {
        tuple(getattr(change, field) for field in key_fields): change
        for change in changes
        if key_of(change) not in batch.listed
    }
    if not compared:
        return list(changes)
    columns, arrays = ", ".join(key_fields), ", ".join(["%s::text[]"] * len(key_fields))
    same = " AND ".join(f"seen.{field} = change.{field}" for field in key_fields)
    query = f"""
        SELECT change.*, row.resource_version
          FROM unnest({arrays}) AS change({columns}),
               LATERAL (SELECT seen.resource_version FROM {table} AS seen
                         WHERE seen.cluster_id = %s AND {same} LIMIT 1) AS row
    """  # noqa: S608 -- names; the limit, of a unique key, lets no plan read the whole cluster
    with connection.cursor() as cursor:
        cursor.execute(query, [*map(list, zip(*compared, strict=True)), cluster])
        rows = cursor.fetchall()
    versions = {row[:-1]: row[-1] for row in rows}
    older = {
        key_of(change)
        for key, change in compared.items()
        if is_older(change.resource_version, than=versions.get(key, ""))
    }
    return [change for change in changes if key_of(change) not in older]


def _write_pods(cluster: str, pods: Sequence[PodSeen], now: datetime) -> None:
    missed = [
        pod.uid for pod in pods if pod.absent and not pod.digest
    ]  # deleted unseen: keep the last digest
    if missed:
        rows = ObservedPod.objects.filter(cluster_id=cluster, uid__in=missed, absent=False)
        rows.update(absent=True, seen_at=now)
    _upsert(_PODS, cluster, [pod for pod in pods if not pod.absent or pod.digest], POD_COLUMNS, now)


def _write_objects(cluster: str, objects: Sequence[ObjectSeen], now: datetime) -> None:
    absent = [obj for obj in objects if obj.absent]
    if absent:
        keys = zip(*((obj.kind, obj.namespace, obj.name) for obj in absent), strict=True)
        with connection.cursor() as cursor:
            cursor.execute(_DELETE_OBJECTS, [*map(list, keys), cluster])
    _upsert(_OBJECTS, cluster, [obj for obj in objects if not obj.absent], OBJECT_COLUMNS, now)


def _upsert(
    statement: str,
    cluster: str,
    objects: Sequence[PodSeen | ObjectSeen],
    names: Sequence[str],
    now: datetime,
) -> None:
    """Write these objects by one statement."""
    if not objects:
        return
    rows = to_json([{name: getattr(obj, name) for name in names} for obj in objects])
    with connection.cursor() as cursor:
        cursor.execute(statement, {"rows": rows.decode(), "cluster": cluster, "now": now})


@dataclass(frozen=True, slots=True)
class NodeChanges:
    """``moved``: a node came, went or has other lasting labels. ``health``: those whose health may differ."""

    moved: bool = False
    health: tuple[str, ...] = ()


def _write_nodes(cluster: str, nodes: Sequence[NodeSeen], now: datetime) -> NodeChanges:
    """Write nodes; returns how they differ from before."""
    if not nodes:
        return NodeChanges()
    rows = Node.objects.filter(cluster_id=cluster, name__in=[node.name for node in nodes])
    before = {row.name: row for row in rows.only(*_BEFORE_FIELDS)}
    changes = _node_changes(before, nodes)
    deleted = [node.name for node in nodes if node.absent]
    if deleted:
        Node.objects.filter(cluster_id=cluster, name__in=deleted).delete()
    new = [node.name for node in nodes if not node.absent and node.name not in before]
    devices = {name: NodeDevices.from_json(row.devices) for name, row in before.items()}
    devices |= offered_by(cluster, new) if new else {}
    amounts = {
        node.name: with_devices(node.allocatable, devices.get(node.name, NO_DEVICES)) for node in nodes
    }
    Node.objects.bulk_create(
        (
            Node(
                cluster_id=cluster,
                name=node.name,
                uid=node.uid,
                labels=node.labels,
                taints=list(node.taints),
                allocatable=amounts[node.name][0],
                devices=amounts[node.name][1].as_json(),
                taints_since=_taints_since(node, before.get(node.name), now),
                unschedulable=node.unschedulable,
                ready=node.ready,
                conditions=list(node.conditions),
                created_at=node.created_at,
                resource_version=node.resource_version,
                seen_at=now,
            )
            for node in nodes
            if not node.absent
        ),
        update_conflicts=True,
        unique_fields=("cluster", *_NAME_KEY),
        update_fields=_NODE_FIELDS,
        batch_size=500,
    )
    if fresh := [node.name for node in nodes if not node.absent and _is_fresh(node, before.get(node.name))]:
        rows = Node.objects.filter(cluster_id=cluster, name__in=fresh)
        rows.update(offers_channel=OFFERS_CHANNEL, channel_since=now)
    return changes


def _taints_since(node: NodeSeen, row: Node | None, now: datetime) -> dict[str, str]:
    """When each of its taints was first observed; a row may be of another node of its name."""
    earlier = row.taints_since if row is not None and row.uid == node.uid else {}
    keys = {str(taint.get("key", "")) for taint in node.taints if taint.get("effect") in BARRING}
    return {key: earlier.get(key, now.isoformat()) for key in sorted(keys)}


def _is_fresh(node: NodeSeen, row: Node | None) -> bool:
    """Whether nothing is known of the channel of this node: a row may be of another one of its name."""
    return row is None or row.uid != node.uid or row.channel_since is None


def _node_changes(before: Mapping[str, Node], nodes: Sequence[NodeSeen]) -> NodeChanges:
    pairs = [(node, row) for node in nodes if (row := before.get(node.name)) is not None]
    return NodeChanges(
        moved=len(pairs) < len(nodes)
        or any(node.absent or _lasting(node.labels) != _lasting(row.labels) for node, row in pairs),
        health=tuple(node.name for node, row in pairs if node.absent or _health(node) != _health(row)),
    )


def _lasting(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels but for that of the ComputeDomain on the node, which every gang's life changes twice.

    No condition follows from it; one of a pool that names it waits for the next evaluation.
    """
    return {label: value for label, value in labels.items() if label != DOMAIN_LABEL}


def _health(node: NodeSeen | Node) -> tuple[Any, ...]:
    return (node.ready, node.unschedulable, list(node.conditions), list(node.taints))


def _on_nodes(cluster: str, nodes: Sequence[str]) -> set[UUID]:
    """The groups that have a pod on these nodes."""
    if not nodes:
        return set()
    rows = ObservedPod.objects.filter(cluster_id=cluster, node_name__in=nodes, absent=False)
    return {row.group_uuid for row in at_home(rows)}


def _write_events(
    cluster: str,
    events: Sequence[EventSeen],
    now: datetime,
    *,
    tasks: Mapping[str, TaskOfPod],
    homes: Mapping[UUID, Home],
) -> set[UUID]:
    """Add events to the timelines of the workflows they are about; returns the groups to notify.

    An event about a name of ours in another cluster or namespace is about somebody else's object.
    """
    if not events:
        return set()
    notifying = {reason for scheduler in installed().values() for reason in scheduler.read_back.events}
    rows: list[Event] = []
    groups_to_notify: set[UUID] = set()
    for event in events:
        task = tasks.get(event.name) if event.kind == "Pod" else None
        group = task.group_id if task else event.group
        home = homes.get(group) if group else None
        if group is None or home is None or not _is_home(home, cluster, event.namespace):
            continue
        rows.append(_event(event, home.workflow, group, now, task=task))
        if task is None and event.reason in notifying:
            groups_to_notify.add(group)
    if rows:
        timeline.insert(rows)
    return groups_to_notify


def _tasks_by_pod(pods: Iterable[str]) -> dict[str, TaskOfPod]:
    """The tries of these pods. One query, none for no pod."""
    if not (names := list(set(pods))):
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_TASKS, [names])
        return {pod: TaskOfPod(*task) for pod, *task in cursor.fetchall()}


def _event(event: EventSeen, workflow: UUID, group: UUID, now: datetime, *, task: TaskOfPod | None) -> Event:
    return Event(
        workflow_id=workflow,
        group_id=group,
        task_name=task.name if task else "",
        retry_id=task.retry_id if task else None,
        time=read_instant(event.time) or now,
        source=event.source,
        warning=event.warning,
        reason=event.reason,
        message=event.message,
        dedupe=event.dedupe[:160],
    )
