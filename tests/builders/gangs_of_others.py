"""Gangs that others submitted to KAI, as rows that an observer writes."""

from django.utils import timezone

from pools.models import Backend, Cluster, ObservedResource
from pools.values.completeness import GANGS, OTHERS
from scheduling.backends.registry import installed
from scheduling.foreign.gang import GangKept, PodKept, kept_pods
from tests.builders.completeness import note_lists
from workflows.models import ObservedGang

REFUSED = {"podgroups.scheduling.run.ai": "podgroups is forbidden", GANGS: None}
"""What is not known where KAI's pod groups may not be listed, and those of others may."""


def follow(backend):
    """The backend follows gangs of others, and all of them were listed."""
    Backend.objects.filter(pk=backend.pk).update(follow_others=True)
    gangs = [scheduler.foreign.kinds[0].crd for scheduler in installed().values() if scheduler.foreign]
    note_lists(dict.fromkeys([*gangs, GANGS, OTHERS], ""), cluster=Cluster.objects.get(pk=backend.cluster_id))


def pod_group(namespace="research", name="pg-train", *, members=2, required="", topology="racks", **spec):
    """A PodGroup of KAI as its podgrouper writes it for a PyTorchJob."""
    if required:
        levels = {"requiredTopologyLevel": required, "preferredTopologyLevel": required}
        spec["topologyConstraint"] = {"topology": topology, **levels}
    owner = {"kind": "PyTorchJob", "name": "train", "uid": "0", "controller": True}
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"namespace": namespace, "name": name, "uid": f"uid-{name}", "ownerReferences": [owner]},
        "spec": {"minMember": members, "queue": "research", **spec},
    }


def waiting_pod(*, gpus=8, **more):
    return PodKept(requests={"nvidia.com/gpu": gpus, "cpu": 1000}, owner=("PyTorchJob", "train"), **more)


def observe_gang(backend, manifest, pods, *, since=None, above=()):
    """The row of a waiting gang; ``pods`` are those that wait, ``above`` the manifests above it."""
    foreign = installed()[backend.scheduler_type].foreign
    metadata = manifest["metadata"]
    gang = GangKept(
        resource=foreign.kinds[0].crd,
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        obj=foreign.keep(foreign.kinds[0], manifest, pod_of=lambda template: waiting_pod()),
        above=tuple(foreign.keep(foreign.kinds[-1], each, pod_of=None) for each in above),
        pods=kept_pods(("", pod) for pod in pods),
    )
    return ObservedGang.objects.create(
        cluster_id=backend.cluster_id,
        resource=gang.resource,
        namespace=gang.namespace,
        name=gang.name,
        uid=gang.uid,
        created_at=since or timezone.now(),
        queue=(gang.obj or {}).get("queue", ""),
        content=gang.to_json(),
        pods=len(pods),
        seen_at=timezone.now(),
    )


def observe_topology(backend, levels, *, name="racks"):
    """The row of a Topology of KAI, which pod groups of others name."""
    return ObservedResource.objects.create(
        cluster_id=backend.cluster_id,
        resource="topologies.kai.scheduler",
        name=name,
        uid=name,
        reading={"labels": [level.label for level in levels]},
        seen_at=timezone.now(),
    )
