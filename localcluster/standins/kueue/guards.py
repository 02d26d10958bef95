"""Kueue's finalizer: it keeps a ClusterQueue with reservations, and a flavor or Topology that is named.

Source: Kueue's ``clusterqueue_controller.go`` (only ``ClusterQueueEmpty`` lets go),
``resourceflavor_controller.go`` (no ClusterQueue uses it) and ``topology_controller.go`` (no flavor names
it); not tried on a running Kueue. Each puts the finalizer on every object that is not being deleted.
"""

from collections.abc import Iterator

from localcluster.standins.kueue.board import reserves
from localcluster.standins.kueue.values import ClusterQueue, Flavor, GuardChange, Snapshot, Topology


def changes(snapshot: Snapshot) -> tuple[GuardChange, ...]:
    return tuple(_changes(snapshot))


def _changes(snapshot: Snapshot) -> Iterator[GuardChange]:
    occupied = {
        each.admission.queue for each in snapshot.workloads if reserves(each) and each.admission is not None
    }
    flavors = {
        flavor.name for queue in snapshot.cluster_queues for _, quotas in queue.groups for flavor in quotas
    }
    topologies = {flavor.topology for flavor in snapshot.flavors}
    objects: list[tuple[ClusterQueue | Flavor | Topology, bool]] = [
        *((queue, queue.name in occupied) for queue in snapshot.cluster_queues),
        *((flavor, flavor.name in flavors) for flavor in snapshot.flavors),
        *((topology, topology.name in topologies) for topology in snapshot.topologies),
    ]
    for obj, in_use in objects:
        if not obj.guard.on and not obj.guard.deleting:
            yield GuardChange(obj, on=True)
        elif obj.guard.on and obj.guard.deleting and not in_use:
            yield GuardChange(obj, on=False)
