"""How the tasks of a group in a world lose their place."""

from datetime import timedelta

from django.utils import timezone

from cluster.kinds import EVENT, POD
from workflows.models import ObservedPod


def delete_pod(world, group, number=0):
    """Its scheduler deletes a pod; nothing says why."""
    task = group.tasks.filter(latest=True).order_by("position")[number]
    world.cluster.remove(POD, task.pod_name, namespace=group.placement["namespace"])
    world.observe()
    end_grace()


def disrupt(world, group, *numbers, reason="PreemptionByScheduler"):
    """Pods, the first if none is named, are deleted with a condition that says why."""
    tasks = list(group.tasks.filter(latest=True).order_by("position"))
    namespace = group.placement["namespace"]
    pods = [tasks[number].pod_name for number in numbers or (0,)]
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}

    def change(obj):
        obj["status"].setdefault("conditions", []).append(condition)

    for pod in pods:
        world.cluster.edit(POD, pod, change, namespace=namespace)
    world.observe()
    for pod in pods:
        world.cluster.remove(POD, pod, namespace=namespace)
    world.observe()
    end_grace()


def lose_nodes(world, group, *numbers):
    """Kubernetes takes pods from nodes that failed, and says so on them."""
    disrupt(world, group, *numbers, reason="DeletionByTaintManager")


def end_grace():
    """The grace in which an explanation may still come is over."""
    ObservedPod.objects.filter(absent=True).update(seen_at=timezone.now() - timedelta(seconds=30))


def eviction(group, message, *, name="evicted", **annotations):
    """KAI's event that a pod of a group was evicted."""
    return {
        "metadata": {"name": name, "namespace": "osmo", "annotations": annotations},
        "involvedObject": {"kind": "PodGroup", "name": group.uuid.hex, "namespace": "osmo"},
        "reason": "Evict",
        "message": message,
        "type": "Normal",
    }


def evict(world, group):
    """KAI takes the nodes from all pods of a group."""
    world.cluster.put(EVENT, eviction(group, "for a fairer share"))
    for name in world.pods():
        world.cluster.remove(POD, name, namespace="osmo")
