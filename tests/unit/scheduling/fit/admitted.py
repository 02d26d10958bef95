"""Gangs as the stand-in for Kueue admits them in one cycle, on the nodes that a verdict was made for."""

from uuid import UUID

from localcluster.standins.kueue import reader
from localcluster.standins.kueue.cycle import schedule
from localcluster.standins.kueue.values import (
    HOSTNAME,
    ClusterQueue,
    Flavor,
    FlavorQuota,
    LocalQueue,
    Node,
    Pod,
    Snapshot,
    Topology,
)
from localcluster.standins.quantities import UNIT
from scheduling.backends.kueue import Kueue
from scheduling.fit.gang_demand import GangDemand
from scheduling.gang.tree import build_tree
from tests.unit.scheduling.build import request
from tests.unit.scheduling.fit.worlds import POOL, demands

KUEUE = Kueue()
QUEUE = "team"
PLENTY = 10**15 * UNIT
_COVERED = ("cpu", "memory", "nvidia.com/gpu", "pods")


def gang_demand(gang, pool=POOL, **changes):
    """The demand of a gang on Kueue, which sees only nodes with the labels of all levels."""
    wants = demands(gang, **changes)
    return GangDemand(
        build_tree(gang, pool), wants, counts_largest=False, cut=len(pool) - 1, is_best_fit=True
    )


def admitted(gangs, nodes, *, pool=POOL):
    """How many pods each gang gets on which node; None for a gang that the stand-in does not admit."""
    topology = Topology("t", (*(level.label for level in pool), HOSTNAME))
    quota = FlavorQuota("f", tuple((name, PLENTY) for name in _COVERED))
    cluster = Snapshot(
        now=0.0,
        nodes=tuple(_node(node) for node in nodes),
        pods=tuple(pod for node in nodes for pod in _busy(node)),
        workloads=tuple(_workload(gang, number, pool) for number, gang in enumerate(gangs)),
        cluster_queues=(ClusterQueue("cq", ((_COVERED, (quota,)),)),),
        local_queues=(LocalQueue("osmo", QUEUE, "cq"),),
        flavors=(Flavor("f", {}, topology="t"),),
        topologies=(topology,),
        namespaces={"osmo": {}},
    )
    changes = {change.workload.uid: change.admission for change in schedule(cluster).changes}
    return [_counts(changes.get(f"g{number}")) for number in range(len(gangs))]


def _counts(admission):
    if admission is None:
        return None
    total = {}
    for pod_set in admission.pod_sets:
        for values, pods in pod_set.assignment.domains:
            total[values[-1]] = total.get(values[-1], 0) + pods
    return total


def _workload(gang, number, pool):
    specs = {"": {"containers": [{"name": "task", "resources": {"requests": _requests(gang)}}]}}
    changes = {"group": UUID(int=number + 1), "queue": QUEUE, "pod_specs": specs}
    (manifest,) = KUEUE.render(request(gang, pool, **changes)).pod_groups
    created = f"2026-01-01T00:00:{number:02}Z"
    manifest["metadata"] |= {"uid": f"g{number}", "creationTimestamp": created, "resourceVersion": "1"}
    return reader.workload(manifest)


def _requests(gang):
    (amounts,) = {demand.amounts for demand in demands(gang).values()}
    gpu, cpu, memory, *_ = amounts
    return {"nvidia.com/gpu": str(gpu), "cpu": f"{cpu}m", "memory": str(memory)}


def _busy(node):
    for used in [holding.amounts for holding in node.holdings] + ([node.others] if any(node.others) else []):
        yield Pod(node.name, {name: amount for name, amount in _amounts(used).items() if name != "pods"})


def _node(node):
    labels = {**node.labels, HOSTNAME: node.name}
    return Node(node.name, labels, _amounts(node.allocatable), unschedulable=bool(node.closed))


def _amounts(amounts):
    gpu, cpu, memory, _, pods, _ = amounts
    return {"nvidia.com/gpu": gpu * UNIT, "cpu": cpu, "memory": memory * UNIT, "pods": pods * UNIT}
