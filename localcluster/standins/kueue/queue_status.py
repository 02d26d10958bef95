"""What ClusterQueues and LocalQueues show of their workloads."""

from collections.abc import Mapping, Sequence
from typing import Any

from localcluster.standins.kueue.assign import written
from localcluster.standins.kueue.board import reserves
from localcluster.standins.kueue.values import (
    Admission,
    ClusterQueue,
    LocalQueue,
    QueueStatus,
    Snapshot,
    Workload,
)

Fault = tuple[str, str]


def fault(snapshot: Snapshot, queue: ClusterQueue) -> Fault | None:
    """Why a ClusterQueue admits nothing: reason and message."""
    if queue.guard.deleting:
        return "Terminating", "Can't admit new workloads; clusterQueue is terminating"
    if queue.stop != "None":
        return "Stopped", "Can't admit new workloads: is stopped."
    resource_flavors = {each.name: each for each in snapshot.flavors}
    names = [flavor.name for _, flavors in queue.groups for flavor in flavors]
    if missing := sorted(set(names) - resource_flavors.keys()):
        return (
            "FlavorNotFound",
            f"Can't admit new workloads: references missing ResourceFlavor(s): {missing[0]}.",
        )
    topologies = {topology for name in names if (topology := resource_flavors[name].topology)}
    if absent := sorted(topologies - {each.name for each in snapshot.topologies}):
        return "TopologyNotFound", f'Can\'t admit new workloads: there is no Topology "{absent[0]}".'
    return None


def statuses(snapshot: Snapshot) -> tuple[QueueStatus, ...]:
    """The statuses that differ from what is written."""
    queues = {each.name: each for each in snapshot.cluster_queues}
    target = {(each.namespace, each.name): each.queue for each in snapshot.local_queues}
    fresh: list[QueueStatus] = []
    for queue in snapshot.cluster_queues:
        workloads = [each for each in snapshot.workloads if _queue_of(each, target) == queue.name]
        fresh.append(QueueStatus(queue, _status(workloads, queue, fault(snapshot, queue), borrowed=True)))
    for local in snapshot.local_queues:
        cluster_queue = queues.get(local.queue)
        workloads = [
            each
            for each in snapshot.workloads
            if (each.namespace, each.queue) == (local.namespace, local.name)
        ]
        fresh.append(
            QueueStatus(
                local,
                _status(
                    workloads, cluster_queue, _local_fault(snapshot, local, cluster_queue), borrowed=False
                ),
            )
        )
    return tuple(each for each in fresh if each.status != each.queue.status)


def _local_fault(snapshot: Snapshot, local: LocalQueue, queue: ClusterQueue | None) -> Fault | None:
    if local.stop != "None":
        return "Stopped", "LocalQueue is stopped"
    if queue is None:
        return "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue"
    if fault(snapshot, queue):
        return "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue"
    return None


def _queue_of(workload: Workload, target: Mapping[tuple[str, str], str]) -> str | None:
    if workload.admission is not None and reserves(workload):
        return workload.admission.queue
    return target.get((workload.namespace, workload.queue))


def _status(
    workloads: Sequence[Workload], queue: ClusterQueue | None, problem: Fault | None, *, borrowed: bool
) -> dict[str, Any]:
    reserving = [each for each in workloads if reserves(each)]
    admitted = [each for each in reserving if each.holds("Admitted")]
    over = ("Finished", "QuotaReserved")
    pending = [each for each in workloads if each.active and not any(each.holds(kind) for kind in over)]
    words = "Can admit new workloads" if borrowed else "Can submit new workloads to localQueue"
    reason, message = problem or ("Ready", words)
    return {
        "pendingWorkloads": len(pending),
        "reservingWorkloads": len(reserving),
        "admittedWorkloads": len(admitted),
        "flavorsReservation": _usage(reserving, queue, borrowed=borrowed),
        "flavorsUsage": _usage(admitted, queue, borrowed=borrowed),
        "conditions": [
            {"type": "Active", "status": "False" if problem else "True", "reason": reason, "message": message}
        ],
    }


def _usage(workloads: Sequence[Workload], queue: ClusterQueue | None, *, borrowed: bool) -> list[Any]:
    totals: dict[tuple[str, str], int] = {}
    for workload in workloads:
        _sum(workload.admission, totals)
    more: dict[str, str] = {"borrowed": "0"} if borrowed else {}

    def resource(flavor: str, name: str) -> dict[str, str]:
        return {"name": name, "total": written(totals.get((flavor, name), 0)), **more}

    return [
        {"name": flavor.name, "resources": [resource(flavor.name, name) for name, _ in flavor.nominal]}
        for _, flavors in (queue.groups if queue else ())
        for flavor in flavors
    ]


def _sum(admission: Admission | None, totals: dict[tuple[str, str], int]) -> None:
    for pod_set in admission.pod_sets if admission else ():
        flavors = dict(pod_set.flavors)
        for resource, amount in pod_set.usage:
            if resource in flavors:
                key = (flavors[resource], resource)
                totals[key] = totals.get(key, 0) + amount
