"""Thousands of nodes of a pool, and gangs that run on nine racks of ten, as rows.

Nobody needs 5,000 machines for them: a process with the service's Django and the settings of a running stack
writes the rows that the observer and the workers would have written.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from bench.site import POOL_LABEL, RACK, RACK_SIZE, ZONE, Site
from bench.workload import one_group
from localcluster.directories import CHECKOUT
from localcluster.supervisor import clean_environment

FREE_RACK = 10
"""Of so many racks one is free."""
GANG = 4
"""Tasks of each gang that runs."""
LABELS = 60
MOST_SECONDS = 900


def measured_beside(
    site: Site, module: str, sizes: Sequence[int], *, pool: str, more: Mapping[str, str] | None = None
) -> Any:
    """What a module of the bench prints that runs in a process of its own, with a pool and numbers of nodes.

    The pool and its backend are called alike; every process that would write beside it is stopped.
    """
    site.add_backend(pool, "kai")
    site.add_pool(pool, backend=pool, topology=True)
    for name in ("beat", "worker", "observer"):
        site.supervisor.stop_one(name)
    settings = site.running.settings.environment() | {"OSMO_LOG_LEVEL": "WARNING"} | dict(more or {})
    done = subprocess.run(  # noqa: S603 -- our own module under our own interpreter
        [sys.executable, "-m", module, *map(str, sizes)],
        cwd=CHECKOUT,
        env=clean_environment() | settings,
        stdout=subprocess.PIPE,
        timeout=MOST_SECONDS,
        check=True,
    )
    return json.loads(done.stdout)


def client() -> Any:
    """A client of the service inside this process, as an administrator; the environment has the settings."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "osmo_topology.settings"
    import django  # noqa: PLC0415 -- only in a process of its own

    django.setup()
    from django.contrib.auth.models import User  # noqa: PLC0415 -- after django.setup
    from django.test import Client  # noqa: PLC0415 -- the same

    from web.operation.process_memory import settle  # noqa: PLC0415 -- the same

    settle()  # as the web processes are
    user, _ = User.objects.get_or_create(username="root", is_superuser=True, is_staff=True)
    signed_in = Client(headers={"Host": "127.0.0.1"})
    signed_in.force_login(user)
    return signed_in


def write_nodes(pool: str, size: int) -> Any:
    """Have the pool's cluster have as many nodes as that, none in use; returns the cluster."""
    from django.utils import timezone  # noqa: PLC0415 -- after django.setup

    from pools.models import Cluster, ForeignUsage, Node, Pool  # noqa: PLC0415 -- the same
    from pools.values.completeness import NODES, OTHERS, merged  # noqa: PLC0415 -- the same
    from workflows.models import Workflow  # noqa: PLC0415 -- the same

    cluster = Cluster.objects.get(pk=Pool.objects.get(name=pool).backend.cluster_id)
    Workflow.objects.all().delete()
    ForeignUsage.objects.filter(cluster=cluster).delete()
    Node.objects.filter(cluster=cluster).delete()
    features = {f"feature.node.kubernetes.io/cpu-{number}": "true" for number in range(LABELS)}
    has = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8", "ephemeral-storage": "1Ti", "pods": "110"}
    now = timezone.now()
    rows = [
        Node(
            cluster=cluster,
            name=_name(number),
            uid=str(number),
            labels=features | {POOL_LABEL: pool, ZONE: f"z{number // 1280}", RACK: f"r{number // RACK_SIZE}"},
            allocatable=has,
            ready=True,
            seen_at=now,
        )
        for number in range(size)
    ]
    Node.objects.bulk_create(rows, batch_size=1000)
    completeness = merged({NODES: "", OTHERS: None}, now=now)
    Cluster.objects.filter(pk=cluster.pk).update(completeness=completeness)
    return cluster


def _name(number: int) -> str:
    return f"n{number:05}"


def occupy(client: Any, pool: str, size: int) -> None:
    """Have gangs of 4 run on nine racks of ten: copies of one that is submitted."""
    from django.db import connection  # noqa: PLC0415 -- after django.setup
    from django.utils import timezone  # noqa: PLC0415 -- the same

    from workflows.models import Task, Workflow  # noqa: PLC0415 -- the same

    nodes = [number for number in range(size) if number // RACK_SIZE % FREE_RACK]
    if not nodes:
        return
    body = {"file": one_group(GANG, name="occupier", gpu=8)}
    client.post(f"/api/pool/{pool}/workflow", json.dumps(body), content_type="application/json")
    workflow = Workflow.objects.get()
    group, tasks, now = workflow.groups.get(), list(Task.objects.order_by("position")), timezone.now()
    workflows, groups, copies = [], [], []
    for number in range(len(nodes) // GANG):
        names = {"name": f"occupier-{number + 2}", "number": number + 2, "idempotency_key": None}
        workflows.append(_copy(workflow, uuid=uuid4(), **names))
        runs = {"status": "RUNNING", "start_time": now}
        groups.append(_copy(group, uuid=uuid4(), workflow_id=workflows[-1].pk, **runs))
        for task, node in zip(tasks, nodes[number * GANG :], strict=False):
            place = {"group_id": groups[-1].pk, "status": "RUNNING", "node_name": _name(node)}
            copies.append(_copy(task, id=None, task_uuid=uuid4(), **place))
    workflow.delete()
    for rows in (workflows, groups, copies):
        type(rows[0]).objects.bulk_create(rows, batch_size=1000)
    with connection.cursor() as cursor:  # as autovacuum has long done where so many run
        cursor.execute("ANALYZE")


def _copy(row: Any, **changes: Any) -> Any:
    fields = {field.attname: getattr(row, field.attname) for field in type(row)._meta.concrete_fields}  # noqa: SLF001 -- documented
    return type(row)(**fields | changes)


def write_others(cluster: Any, size: int) -> None:
    """Have other tenants' pods use a little of every node."""
    from django.utils import timezone  # noqa: PLC0415 -- after django.setup

    from pools.models import Cluster, ForeignUsage  # noqa: PLC0415 -- the same
    from pools.values.completeness import OTHERS, merged  # noqa: PLC0415 -- the same

    now = timezone.now()
    rows = [
        ForeignUsage(
            cluster=cluster, node=_name(number), gpu=0, cpu=500, memory=2**30, storage=0, pods=4, seen_at=now
        )
        for number in range(size)
    ]
    ForeignUsage.objects.bulk_create(rows, batch_size=1000)
    Cluster.objects.filter(pk=cluster.pk).update(completeness=merged({OTHERS: ""}, now=now))
