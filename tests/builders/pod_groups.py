"""KAI's pod group of the only gang in a world, and what a scheduler does with its pods."""

from cluster.kinds import POD
from tests.fakes.kinds import KAI_POD_GROUP


def pod_group(world):
    (obj,) = world.cluster.all(KAI_POD_GROUP)
    return obj


def pods_of(cluster, name):
    """The pods that name this pod group."""
    return [pod for pod in cluster.all(POD) if pod["metadata"]["annotations"].get("pod-group-name") == name]


def bind(cluster, name, *, first=None):
    """Give the waiting pods of a pod group (or only the first few) a node."""
    for pod in pods_of(cluster, name)[:first]:
        if not pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]:
            pod["spec"]["nodeName"] = "node-0"
            cluster.put(POD, pod)


def patches(world):
    """How many edits were sent to the cluster."""
    return sum(call.verb == "patch" for call in world.cluster.calls)
