"""Which pods of a group have a node or are about to get one, and why a binder binds none, read live.

Whoever edits a waiting gang asks here just before: the observer's rows lag, and KAI tells its binder a pod's
node by a BindRequest before the pod has it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cluster.errors import ClusterError, RequestForbidden
from pools.clusters.kinds import as_kind
from scheduling.backends.base import BindFailure
from scheduling.backends.registry import scheduler_backend
from workflows.lifecycle.statuses import TaskStatus
from workflows.reconcile.observe import observations
from workflows.reconcile.view.group_reader import GroupReader
from workflows.reconcile.view.group_view import GroupView
from workflows.reconcile.view.leased import LeasedCluster
from workflows.values.observation import PodSeen

SILENT_AFTER = timedelta(seconds=60)
"""How old a scheduler's last report is when it may have chosen nodes since."""

UNANSWERED_AFTER = timedelta(seconds=10)
"""How long a binder may take to answer a BindRequest before that is a reason."""


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


def silent_failures(view: GroupView, cluster: LeasedCluster) -> tuple[BindFailure, ...]:
    """Why a scheduler's binder has not bound pods of a gang on which the scheduler says nothing more.

    Read live, and only then: whoever waits for room is reported on again and again, and costs no call. A
    scheduler that has chosen nodes reports nothing, its last report may remain, and a binder that is not at
    work leaves no condition on the pods.
    """
    scheduler = scheduler_backend(view.placement.terms.scheduler_type)
    since, limit = view.row.created_in_cluster_at, view.now - UNANSWERED_AFTER
    waits = view.status == TaskStatus.SCHEDULING and since is not None and since < limit
    if not waits or scheduler.bind_request is None:
        return ()
    reader = GroupReader(cluster, view.uuid, view.placement)
    pods = {task.pod_name for task in view.tasks}
    before = _written(limit)
    if scheduler.texts.last_report(observations.pod_groups(view)) > _written(view.now - SILENT_AFTER):
        return ()
    try:
        return reader.bind_failures(as_kind(scheduler.bind_request), pods, before=before)
    except ClusterError:
        return ()


def _written(time: datetime) -> str:
    """A time as Kubernetes writes it."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def bound_pods(view: GroupView, cluster: LeasedCluster, pods: Mapping[str, PodSeen]) -> BoundPods:
    """Read which of these pods, as they were read just now, are bound. Raises ClusterError."""
    latest = pods.keys() & {task.pod_name for task in view.tasks}
    with_node = frozenset(name for name in latest if pods[name].node_name)
    scheduler = scheduler_backend(view.placement.terms.scheduler_type)
    if scheduler.bind_request is None:
        return BoundPods(with_node, is_complete=True)
    reader = GroupReader(cluster, view.uuid, view.placement)
    try:
        chosen = reader.bind_requests(as_kind(scheduler.bind_request))
    except RequestForbidden:  # the right came with that to label pods
        return BoundPods(with_node, is_complete=False)
    return BoundPods(with_node | (chosen & latest), is_complete=True)
