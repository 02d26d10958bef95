"""Small clusters drawn in ASCII, and what the stand-in for Kueue makes of them.

A drawing is a list of ``zone/rack: nodes`` lines; ``-`` stands for a label that the nodes lack.
"""

import dataclasses

from localcluster.standins.kueue.cycle import schedule
from localcluster.standins.kueue.values import (
    HOSTNAME,
    ClusterQueue,
    Flavor,
    FlavorQuota,
    LocalQueue,
    Node,
    PodSet,
    Request,
    Snapshot,
    Topology,
    Workload,
)
from localcluster.standins.quantities import UNIT

GPU = "nvidia.com/gpu"
ZONE, RACK = "topo/zone", "topo/rack"
NOW = 1_000_000.0
CLUSTER = """
    a/a1: a1-0 a1-1 a1-2 a1-3
    a/a2: a2-0 a2-1 a2-2 a2-3
    b/b1: b1-0 b1-1 b1-2 b1-3
"""


def nodes(picture, gpus=4):
    drawn = []
    for line in filter(str.strip, picture.splitlines()):
        path, _, names = line.partition(":")
        values = zip((ZONE, RACK), path.strip().split("/"), strict=True)
        labels = {"pool": "p", **{label: value for label, value in values if value != "-"}}
        room = {GPU: gpus * UNIT, "pods": 110 * UNIT}
        drawn += [Node(name, {**labels, HOSTNAME: name}, room) for name in names.split()]
    return tuple(drawn)


def pod_set(count, name="main", gpus=4, **request):
    return PodSet(name, count, {GPU: gpus * UNIT}, Request(**request) if request else None)


def workload(name, *pod_sets, priority=0, created="2026-01-01T00:00:00Z", **more):
    return Workload("ns", name, f"uid-{name}", "1", created, priority, "lq", pod_sets, **more)


def world(*workloads, picture=CLUSTER, gpus=4, quota=1000, within="Never", **more):
    group = ((GPU,), (FlavorQuota("flavor", ((GPU, quota * UNIT),)),))
    basis = Snapshot(
        now=NOW,
        nodes=nodes(picture, gpus=gpus),
        workloads=workloads,
        cluster_queues=(ClusterQueue("cq", (group,), within=within),),
        local_queues=(LocalQueue("ns", "lq", "cq"),),
        flavors=(Flavor("flavor", {"pool": "p"}, topology="topology"),),
        topologies=(Topology("topology", (ZONE, RACK, HOSTNAME)),),
        namespaces={"ns": {}},
    )
    return dataclasses.replace(basis, **more)


def after(snapshot):
    """The snapshot once what was decided is written."""
    changes = {change.workload.uid: change for change in schedule(snapshot).changes}

    def written(each):
        if (change := changes.get(each.uid)) is None:
            return each
        fresh = {condition.type: condition for condition in (*each.conditions, *change.conditions)}
        admission = change.admission if change.readmit else each.admission
        return dataclasses.replace(each, conditions=tuple(fresh.values()), admission=admission)

    return dataclasses.replace(snapshot, workloads=tuple(map(written, snapshot.workloads)))


def edit(snapshot, name, **changes):
    """The snapshot with one workload changed."""
    fresh = (
        dataclasses.replace(each, **changes) if each.name == name else each for each in snapshot.workloads
    )
    return dataclasses.replace(snapshot, workloads=tuple(fresh))


def named(snapshot, name):
    return next(each for each in snapshot.workloads if each.name == name)


def places(snapshot, name):
    """Pods by node for each pod set of an admitted workload; empty for one that waits."""
    admission = named(snapshot, name).admission
    return {
        each.name: {values[-1]: pods for values, pods in each.assignment.domains}
        for each in (admission.pod_sets if admission else ())
    }


def racks(placed):
    return {node.partition("-")[0] for node in placed}


def message(snapshot, name, kind="QuotaReserved"):
    condition = named(snapshot, name).condition(kind)
    return condition.message if condition else None
