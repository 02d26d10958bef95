"""A gang that Kueue admits before it has pods, and its Workload."""

from cluster.kinds import NODE, POD
from pools.values.recovery import RecoveryPolicy, Response
from tests.builders.gangs import recovering_gang
from tests.fakes import players
from tests.fakes.kinds import WORKLOAD
from tests.worker.world import World
from workflows.models import TaskGroup

HOSTNAME = "kubernetes.io/hostname"
PREEMPTED = RecoveryPolicy(preempted=Response.REQUEUE, backoff_first=0.001)
KUEUE = {"scheduler_type": "kueue", "scheduler_name": "default-scheduler", "scheduler_version": "0.15"}


def binder(cluster):
    """Kubernetes' scheduler: a pod gets the node that its selector names, and no other."""
    for pod in cluster.all(POD):
        node = pod["spec"].get("nodeSelector", {}).get(HOSTNAME)
        if node and not pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]:
            pod["spec"]["nodeName"] = node
            cluster.put(POD, pod)


def kueue_world():
    """Nodes n-1 to n-4, and a scheduler that binds pods to the nodes that they name."""
    world = World(scheduled=False)
    world.cluster.players += [binder, players.kubelet]
    for number in range(1, 5):
        name = f"n-{number}"
        world.cluster.put(NODE, {"metadata": {"name": name, "labels": {HOSTNAME: name}}})
    return world


def queued_gang(world, *, pods=2, policy=PREEMPTED, claim_gpus=None, **frozen):
    pool = world.pool(backend=KUEUE, nvlink=True)
    frozen = {"queue": "train", "claim_gpus": dict(claim_gpus or {}), **frozen}
    return recovering_gang(world, pods=pods, policy=policy, pool=pool, **frozen)


def workload(world):
    (obj,) = world.cluster.all(WORKLOAD)
    return obj


def node_terms(spec):
    """The node affinity that a pod's spec requires: expressions of each term, as texts."""
    required = spec.get("affinity", {}).get("nodeAffinity", {})
    terms = required.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", ())
    return [
        [" ".join([e["key"], e["operator"], *e.get("values", ())]) for e in term["matchExpressions"]]
        for term in terms
    ]


def condition(kind, status="True", reason="", message=""):
    return {"type": kind, "status": status, "reason": reason, "message": message}


def write_status(world, status):
    name = workload(world)["metadata"]["name"]

    def change(obj):
        obj["status"] = status

    world.cluster.edit(WORKLOAD, name, change, namespace="osmo")


def admit(world, *nodes):
    """Kueue admits the gang, with one pod on each of these nodes."""
    (pod_set,) = workload(world)["spec"]["podSets"]
    part = {
        "domainCount": len(nodes),
        "podCounts": {"universal": 1},
        "valuesPerLevel": [{"individual": {"roots": list(nodes)}}],
    }
    assigned = {"name": pod_set["name"], "topologyAssignment": {"levels": [HOSTNAME], "slices": [part]}}
    conditions = [condition("QuotaReserved"), condition("Admitted")]
    write_status(
        world, {"conditions": conditions, "admission": {"clusterQueue": "q", "podSetAssignments": [assigned]}}
    )


def evict_workload(world, reason="Preempted", message="Preempted to accommodate a workload"):
    status = workload(world).get("status") or {}
    evicted = condition("Evicted", reason=reason, message=message)
    write_status(world, {**status, "conditions": [*status.get("conditions", ()), evicted]})


def hosts():
    """The node of each task of the present attempt of the only group, in their order."""
    group = TaskGroup.objects.get()
    tasks = group.tasks.filter(latest=True).order_by("position")
    return [task.node_name for task in tasks]
