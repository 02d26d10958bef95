"""Which pods of a group have a node or are about to get one, read live.

Whoever edits a waiting gang asks here just before: the observer's rows lag, and KAI tells its binder a pod's
node by a BindRequest before the pod has it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cluster.errors import RequestForbidden
from pools.clusters.kinds import as_kind
from scheduling.backends.base import OrdersSets
from scheduling.backends.registry import scheduler_backend
from workflows.reconcile.group_reader import GroupReader
from workflows.reconcile.group_view import GroupView
from workflows.reconcile.leased import LeasedCluster
from workflows.values.observation import PodSeen


@dataclass(frozen=True, slots=True)
class BoundPods:
    """The pods of latest tries that have a node or are about to get one, by name.

    ``is_complete`` False: BindRequests may not be read, so others may be about to get one.
    """

    names: frozenset[str]
    is_complete: bool

    @property
    def may_be_any(self) -> bool:
        return bool(self.names) or not self.is_complete


def bound_pods(view: GroupView, cluster: LeasedCluster, pods: Mapping[str, PodSeen]) -> BoundPods:
    """Read which of these pods, as they were read just now, are bound. Raises ClusterError."""
    latest = pods.keys() & {task.pod_name for task in view.tasks}
    with_node = frozenset(name for name in latest if pods[name].node_name)
    scheduler = scheduler_backend(view.placement.scheduler_type)
    if not isinstance(scheduler, OrdersSets):
        return BoundPods(with_node, is_complete=True)
    reader = GroupReader(cluster, view.uuid, view.placement)
    try:
        chosen = reader.bind_requests(as_kind(scheduler.bind_request))
    except RequestForbidden:  # the right came with that to label pods
        return BoundPods(with_node, is_complete=False)
    return BoundPods(with_node | (chosen & latest), is_complete=True)
