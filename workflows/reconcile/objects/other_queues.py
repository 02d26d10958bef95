"""Nodes of the work in other queues of a pool, which a scheduler does not see in the pool's present one.

A pool's own queue has another name once its keys or nodes have changed, and the earlier one stays while
groups join it. A scheduler that counts use by flavor would hand out the nodes of that queue's work once
more (seen on Kueue 0.17). So a gang asks for room elsewhere than on nodes that such work holds, and while it
waits its pod group follows their change. A pod group that holds room is never changed.
"""

from dataclasses import replace

from cluster.errors import WriteConflict
from pools.clusters.capabilities import counts_by_flavor
from pools.documents.backend import queues_of
from scheduling.backends.registry import scheduler_backend
from workflows.manifests.group import Renderer, left_out_mark
from workflows.models import ObservedObject, TaskGroup
from workflows.reconcile.observe import observations
from workflows.reconcile.turn import Turn
from workflows.reconcile.view.group_reader import pod_group_kind
from workflows.reconcile.view.group_view import GroupView
from workflows.values.observation import LEFT_OUT_ANNOTATION, POD_GROUP
from workflows.values.placement import GroupValues


def elsewhere(view: GroupView) -> GroupValues:
    """The group as it asks for room: elsewhere than on nodes that work in other queues of its pool holds."""
    return replace(view.values, left_out=_left_out(view))


def follow_other_queues(turn: Turn) -> Turn:
    """Bring the pod groups of a gang that waits for room in line with that. Raises ClusterError."""
    view = turn.view
    kind = pod_group_kind(view.placement)
    if kind is None or view.row.created_in_cluster_at is not None or not _counts_by_flavor(view):
        return turn
    values = elsewhere(view)
    mark, namespace = left_out_mark(values.left_out), view.placement.terms.namespace
    marks = {
        str(row["metadata"]["name"]): row["metadata"]["annotations"].get(LEFT_OUT_ANNOTATION, "")
        for row in observations.pod_groups(view)
    }
    for manifest in Renderer(values).pod_groups() if set(marks.values()) - {mark} else ():
        name = str(manifest["metadata"]["name"])
        live = turn.cluster.get(kind, name, namespace=namespace) if marks.get(name, mark) != mark else None
        if live is None:
            continue
        annotations = {LEFT_OUT_ANNOTATION: mark or None}
        metadata = {"resourceVersion": live["metadata"]["resourceVersion"], "annotations": annotations}
        body = {"metadata": metadata, "spec": manifest["spec"]}
        try:
            turn.cluster.patch(kind, name, body, namespace=namespace)
        except WriteConflict:  # the scheduler has written to it
            continue
    return turn


def _counts_by_flavor(view: GroupView) -> bool:
    scheduler_type = view.placement.terms.scheduler_type
    return queues_of(view.backend).own and counts_by_flavor(scheduler_type, backend=view.backend)


def _left_out(view: GroupView) -> tuple[str, ...]:
    terms = view.placement.terms
    scheduler = scheduler_backend(terms.scheduler_type).admission
    if scheduler is None or not _counts_by_flavor(view):
        return ()
    others = TaskGroup.objects.filter(
        workflow__pool_name=terms.pool,
        backend_id=view.row.backend_id,
        touched_cluster=True,
        released_at=None,
        placement__scheduler_type=terms.scheduler_type,
    ).exclude(placement__queue=terms.queue)
    rows = ObservedObject.objects.filter(
        cluster=observations.cluster_of(view), kind=POD_GROUP, group_uuid__in=others.values("pk")
    )
    return tuple(sorted({node for row in rows for node in scheduler.nodes_held(row.as_manifest())}))
