"""Rows for tests, each sound on its own: a backend that answers, a pool on it, a workflow in flight.

A group's frozen placement is made from its pool as a submission would make it, so what a test changes on
the pool before making the group reaches it, and nothing later does.
"""

import json
import uuid

import factory
from django.utils import timezone
from factory.django import DjangoModelFactory

from pools.documents.backend import QUEUE_DEFAULTS
from pools.documents.terms import terms_of
from pools.models import Backend, Cluster, ForeignUsage, Installation, Node, Platform, Pool, TopologyKey
from pools.selectors import pool_levels
from pools.values.completeness import NODES, OTHERS
from scheduling import names
from scheduling.nodes.devices import CLASSES, NOT_SERVED
from scheduling.topology.levels import Level
from tests.builders.completeness import note_lists
from tests.builders.terms import changed
from workflows.models import NameCounter, Task, TaskGroup, Workflow
from workflows.values.placement import GroupPlacement, TaskPlacement

ZONE = Level("zone", "topology.kubernetes.io/zone")
RACK = Level("rack", "example.com/rack")
CLIQUE = Level("clique", "nvidia.com/gpu.clique")
LEVELS = (ZONE, RACK, CLIQUE)


def installation():
    """The uuid of the one Installation row, made if it is not there."""
    return Installation.objects.get_or_create(singleton=True)[0].uuid


class ClusterFactory(DjangoModelFactory):
    class Meta:
        model = Cluster
        django_get_or_create = ("uid",)

    uid = factory.Sequence("cluster-{}".format)
    completeness = factory.LazyFunction(
        lambda: {NODES: {"synced_at": timezone.now().isoformat()}, CLASSES: {"problem": NOT_SERVED}}
    )
    heartbeat_at = factory.LazyFunction(timezone.now)


STANDING = "2026-01-01T00:00:00+00:00"
"""Since when the taints of a node stand, unless a test says otherwise."""


class NodeFactory(DjangoModelFactory):
    class Meta:
        model = Node

    cluster = factory.SubFactory(ClusterFactory)
    name = factory.Sequence("node-{}".format)
    uid = factory.LazyFunction(lambda: str(uuid.uuid4()))
    labels = factory.LazyFunction(dict)
    allocatable = factory.LazyFunction(
        lambda: {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8", "ephemeral-storage": "1Ti"}
    )
    taints = factory.LazyFunction(list)
    taints_since = factory.LazyAttribute(lambda node: {taint["key"]: STANDING for taint in node.taints})
    ready = True
    seen_at = factory.LazyFunction(timezone.now)


def foreign_usage(cluster, node, *, gpu=0, cpu=0, memory=0, storage=0, pods=1, namespace="", evictable=None):
    """Other tenants' pods on a node: GPUs, thousandths of a core, bytes; those of the cluster are known."""
    amounts = [gpu, cpu, memory, storage, pods]
    note_lists({OTHERS: ""}, cluster=cluster)
    return ForeignUsage.objects.create(
        cluster=cluster,
        node=node,
        gpu=gpu,
        cpu=cpu,
        memory=memory,
        storage=storage,
        pods=pods,
        shares=json.dumps([[namespace, evictable, *amounts]] if namespace else []),
        seen_at=timezone.now(),
    )


class BackendFactory(DjangoModelFactory):
    """A KAI backend that was probed and answers."""

    class Meta:
        model = Backend

    name = factory.Sequence("backend-{}".format)
    cluster = factory.SubFactory(ClusterFactory)
    scheduler_version = "0.13"
    queue_settings = factory.LazyFunction(lambda: dict(QUEUE_DEFAULTS))
    kubernetes_version = "v1.37.2"
    probed_at = factory.LazyFunction(timezone.now)
    conditions = factory.LazyFunction(
        lambda: [
            {
                "type": "Reachable",
                "status": "True",
                "reason": "Probed",
                "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00",
                "observedRevision": 1,
            }
        ]
    )


class PlatformFactory(DjangoModelFactory):
    class Meta:
        model = Platform

    name = factory.Sequence("platform-{}".format)


class PoolFactory(DjangoModelFactory):
    """A pool with one platform, ``gpu``, its default; ``levels=(...)`` gives it topology keys."""

    class Meta:
        model = Pool
        skip_postgeneration_save = True

    name = factory.Sequence("pool-{}".format)
    backend = factory.SubFactory(BackendFactory)
    default_platform = "gpu"
    revision = 1

    @factory.post_generation
    def levels(self, create, extracted, **kwargs):
        TopologyKey.objects.bulk_create(
            TopologyKey(pool=self, position=position, key=level.key, label=level.label)
            for position, level in enumerate(extracted or ())
        )

    @factory.post_generation
    def platforms(self, create, extracted, **kwargs):
        for name in ("gpu",) if extracted is None else extracted:
            PlatformFactory(pool=self, name=name)


class WorkflowFactory(DjangoModelFactory):
    """A workflow; its number is taken, as that of a submission is."""

    class Meta:
        model = Workflow
        exclude = ("pool",)
        skip_postgeneration_save = True

    pool = factory.SubFactory(PoolFactory)
    base_name = "train"
    number = factory.Sequence(lambda n: n + 1)
    name = factory.LazyAttribute(lambda o: f"{o.base_name}-{o.number}")
    pool_name = factory.SelfAttribute("pool.name")
    backend = factory.SelfAttribute("pool.backend")
    pool_revision = factory.SelfAttribute("pool.revision")
    submitted_by = "ann"
    spec = "workflow:\n  name: train\n"
    exec_timeout = 3600.0
    queue_timeout = 3600.0

    @factory.post_generation
    def counter(self, create, extracted, **kwargs):
        if create:
            row = NameCounter.objects.filter(pk=self.base_name).first()
            last = max(self.number, row.last if row else 0)
            NameCounter.objects.update_or_create(base_name=self.base_name, defaults={"last": last})


def placement_of(workflow, pool, **changes):
    """The placement a submission of this workflow to this pool would freeze."""
    queue = names.queue(pool.backend.namespace, pool.name) if pool.backend.scheduler_type == "kai" else ""
    terms = terms_of(pool, installation=installation(), queue=queue, levels=pool_levels(pool))
    values = {
        "terms": terms,
        "priority_class": names.priority_class(workflow.priority),
        "nvlink": pool.nvlink,
        "exec_timeout": workflow.exec_timeout,
        "queue_timeout": workflow.queue_timeout,
        "default_exit_actions": pool.default_exit_actions,
        "workflow_name": workflow.name,
        "workflow_uuid": workflow.uuid,
        "submitted_by": workflow.submitted_by,
        "labels": workflow.labels,
        "priority": workflow.priority,
    }
    return changed(GroupPlacement(**values), **changes)


class TaskGroupFactory(DjangoModelFactory):
    """A group ready to be created, with ``pods`` tasks of one GPU each, the first of them the lead.

    ``frozen`` changes values of its placement, ``task`` those of each task's.
    """

    class Meta:
        model = TaskGroup
        exclude = ("pool", "frozen")
        skip_postgeneration_save = True

    pool = factory.SubFactory(PoolFactory)
    frozen = factory.LazyFunction(dict)
    workflow = factory.SubFactory(WorkflowFactory, pool=factory.SelfAttribute("..pool"))
    backend = factory.SelfAttribute("workflow.backend")
    position = factory.LazyAttribute(lambda o: o.workflow.groups.count())
    name = factory.LazyAttribute(lambda o: f"group-{o.position}")
    status = "PROCESSING"
    next_reconcile_at = factory.LazyFunction(timezone.now)
    placement = factory.LazyAttribute(lambda o: placement_of(o.workflow, o.pool, **o.frozen).to_json())

    @factory.post_generation
    def pods(self, create, extracted, **kwargs):
        count = 1 if extracted is None else extracted
        nvlink = self.placement.get("nvlink", False)
        for position in range(count):
            TaskFactory(
                group=self,
                position=position,
                status=self.status,
                lead=position == 0,
                placement__claims_channel=nvlink,
            )


class TaskPlacementFactory(factory.Factory):
    class Meta:
        model = TaskPlacement

    image = "example.com/train:1"
    command = ("train",)
    cpu = 1
    gpu = 1
    memory = "1Gi"
    platform = "gpu"


class TaskFactory(DjangoModelFactory):
    """One try of one task; ``placement__gpu=8`` and the like set what is frozen of it."""

    class Meta:
        model = Task
        exclude = ("placement",)

    group = factory.SubFactory(TaskGroupFactory, pods=0)
    task_uuid = factory.LazyFunction(uuid.uuid4)
    position = factory.LazyAttribute(lambda o: o.group.tasks.count())
    name = factory.LazyAttribute(lambda o: f"task-{o.position}")
    status = factory.SelfAttribute("group.status")
    placement = factory.SubFactory(TaskPlacementFactory, lead=factory.SelfAttribute("..lead"))
    lead = False
    spec = factory.LazyAttribute(lambda o: o.placement.to_json())
    pod_name = factory.LazyAttribute(lambda o: names.pod(o.task_uuid, retry=o.retry_id))
    retry_id = 0
