"""A gang in a queue of Kueue that somebody else made, as rows of the observer and the service."""

from django.utils import timezone

from pools.models import ObservedResource
from scheduling.backends.kueue import Kueue
from scheduling.topology.levels import HOSTNAME_LABEL
from tests.builders.completeness import note_lists
from tests.factories import NodeFactory, PoolFactory, TaskFactory, TaskGroupFactory
from tests.fakes import kueue_objects
from workflows.models import ObservedObject, TaskGroup
from workflows.values.observation import POD_GROUP

KINDS = ["topologies.kueue.x-k8s.io", *(kind.crd for kind in Kueue.joined_kinds)]


def queued_gang(*, used):
    """A group of one task with 8 GPUs, which waits for room in a queue of 8 GPUs, so many of them in use."""
    pool = PoolFactory(backend__scheduler_type="kueue", local_queue="team")
    cluster = pool.backend.cluster
    NodeFactory(cluster=cluster, name="n1")
    note_lists(dict.fromkeys(KINDS, ""))
    objects = kueue_objects.readings(
        kueue_objects.local_queue(f"{pool.backend.namespace}/team", "cq"),
        kueue_objects.cluster_queue("cq", ("h100", 8), used=used),
        kueue_objects.flavor("h100", {}, "floor"),
    )
    ObservedResource.objects.create(
        cluster=cluster,
        resource=KINDS[0],
        name="floor",
        reading={"labels": [HOSTNAME_LABEL]},
        seen_at=timezone.now(),
    )
    for (resource, name), reading in objects.items():
        ObservedResource.objects.create(
            cluster=cluster, resource=resource, name=name, reading=reading, seen_at=timezone.now()
        )
    group = TaskGroupFactory(pool=pool, pods=0, status="SCHEDULING")
    TaskFactory(group=group, status="SCHEDULING", placement__gpu=8)
    TaskGroup.objects.update(placement={**group.placement, "queue": "team"})
    return TaskGroup.objects.get()


def put_workload(group, *conditions, namespace=""):
    """Its Workload, of which these conditions are True, in its own namespace or another one."""
    status = {"conditions": [{"type": kind, "status": "True"} for kind in conditions]}
    ObservedObject.objects.create(
        cluster=group.backend.cluster,
        kind=POD_GROUP,
        namespace=namespace or group.placement["namespace"],
        name="w",
        uid="w",
        group_uuid=group.pk,
        digest={"status": status},
        seen_at=timezone.now(),
    )
