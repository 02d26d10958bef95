"""Suspect nodes: noting what nodes did to task groups, and which nodes are suspect by it.

Written with the change that it follows from, by the worker that holds the group; rows are inserted in order
of node, so two workers cannot block each other. Read at submission and by pages.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.utils import timezone

from pools.models import NodeFailure, SuspectNode
from scheduling.nodes.suspects import FailedGroup, NodeFault, suspicion
from web import env
from workflows.models import TaskGroup

MOST_FAILURES = 200
"""Failures of one node that are read: the newest."""


def note_failures(group: TaskGroup, faults: Mapping[str, NodeFault], *, now: datetime) -> None:
    """Note that nodes failed a group, each with its fault, and suspect those that did so too often."""
    cluster = group.placement.get("cluster_uid") or group.backend.cluster_id
    if not cluster:
        return
    window = timedelta(seconds=env.environment().suspect_window_seconds)
    old = NodeFailure.objects.filter(cluster_id=cluster, node__in=faults, at__lt=now - window)
    NodeFailure.objects.filter(
        pk__in=list(old.select_for_update(skip_locked=True).values_list("pk", flat=True))
    ).delete()
    NodeFailure.objects.bulk_create(
        (
            NodeFailure(
                cluster_id=cluster,
                node=node,
                group_uuid=group.pk,
                username=group.workflow.submitted_by,
                fault=fault,
                at=now,
            )
            for node, fault in sorted(faults.items())
        ),
        ignore_conflicts=True,
    )
    for node in sorted(faults):
        _suspect(cluster, node, now=now, window=window)


def _suspect(cluster: str, node: str, *, now: datetime, window: timedelta) -> None:
    rows = NodeFailure.objects.filter(cluster_id=cluster, node=node).order_by("-at", "-pk")
    failures = [
        FailedGroup(user, NodeFault(fault), at)
        for user, fault, at in rows.values_list("username", "fault", "at")[:MOST_FAILURES]
    ]
    verdict = suspicion(failures, now=now, window=window)
    if verdict is None:
        return
    SuspectNode.objects.filter(cluster_id=cluster, node=node, until__lte=now).delete()
    row = SuspectNode(
        cluster_id=cluster,
        node=node,
        since=now,
        until=now + timedelta(seconds=env.environment().suspect_seconds),
        groups=verdict.groups,
        users=verdict.users,
        faults=list(verdict.faults),
    )
    SuspectNode.objects.bulk_create(
        [row],
        update_conflicts=True,
        unique_fields=("cluster", "node"),
        update_fields=("until", "groups", "users", "faults"),
    )


def suspects_of(cluster: str | None) -> dict[str, SuspectNode]:
    """The suspect nodes of a cluster by name, those suspect for longest first. One query."""
    if not cluster:
        return {}
    rows = SuspectNode.objects.filter(cluster_id=cluster, until__gt=timezone.now())
    return {row.node: row for row in rows.order_by("since", "node")}
