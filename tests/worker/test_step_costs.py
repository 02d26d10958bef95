"""What the observer's and the worker's steps cost, by the table in tests/step_costs.py."""

from contextlib import contextmanager

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from cluster.kinds import POD
from tests.step_costs import Cost, check
from tests.worker.world import fresh
from workflows.models import ObservedPod, Task, TaskGroup
from workflows.observer.inbox import Batch
from workflows.observer.writer import write
from workflows.services import notify
from workflows.values.observation import PodSeen

SENT = "2026-11-20T10:00:00Z"


@pytest.fixture
def messages(monkeypatch):
    """The groups that messages were sent for."""
    sent = []
    monkeypatch.setattr(notify, "_send", sent.extend)
    return sent


@pytest.fixture
def spending(world, messages, django_capture_on_commit_callbacks):
    """Count what happens in a block, and compare it with the row of a step."""

    @contextmanager
    def count(step):
        calls, sent = len(world.cluster.calls), len(messages)
        with CaptureQueriesContext(connection) as queries, django_capture_on_commit_callbacks(execute=True):
            yield
        detail = "\n".join(query["sql"][:160] for query in queries.captured_queries)
        spent = Cost(sql=len(queries), calls=len(world.cluster.calls) - calls, messages=len(messages) - sent)
        check(step, spent, detail)

    return count


def running_gang(world, size, *, scheduler="default"):
    """A gang whose pods all run, written as rows: a cluster of 1,000 pods in memory takes seconds."""
    group = world.group(pods=1, pool=world.pool(backend={"scheduler_type": scheduler}))
    world.reconcile(group)
    first = group.tasks.get()
    now = timezone.now()
    Task.objects.bulk_create(
        Task(
            group=group,
            position=n,
            name=f"t{n}",
            status="SCHEDULING",
            spec=first.spec,
            pod_name=f"{first.pod_name}-{n}",
        )
        for n in range(1, size)
    )
    rows = list(Task.objects.filter(group=group).order_by("position"))
    for n, task in enumerate(rows):
        task.status, task.node_name, task.pod_ip = "RUNNING", f"n{n % 20}", f"10.0.{n // 250}.{n % 250}"
        task.start_time = now
    Task.objects.bulk_update(rows, ["status", "node_name", "pod_ip", "start_time"])
    TaskGroup.objects.filter(pk=group.pk).update(status="RUNNING", created_in_cluster_at=now, start_time=now)
    ObservedPod.objects.all().delete()
    write(world.uid, Batch(changes=[pod_of(group, task, "Running") for task in rows], is_reachable=True))
    world.reconcile(group)
    assert fresh(group).status == "RUNNING"
    return group


def pod_of(group, task, phase):
    state = {"state": "running", "since": SENT}
    if phase == "Succeeded":
        state = {"state": "terminated", "reason": "Completed", "since": SENT, "finished": SENT, "exit": 0}
    return PodSeen(
        namespace=group.placement["namespace"],
        name=task.pod_name,
        uid=f"uid-{task.pk}",
        group_uuid=group.pk,
        phase=phase,
        node_name=task.node_name,
        pod_ip=task.pod_ip,
        digest={"created": SENT, "containers": [{"name": "main", **state}]},
        resource_version=str(task.pk + (10**6 if phase == "Succeeded" else 0)),
    )


def ends_of(group, count):
    """The ends of tasks that are not the lead."""
    rows = Task.objects.filter(group=group, lead=False, status="RUNNING").order_by("position")[:count]
    return Batch(changes=[pod_of(group, task, "Succeeded") for task in rows])


@pytest.mark.parametrize(
    ("size", "ends", "of"), [(10, 1, "gang of 10"), (1000, 1, "gang of 1,000"), (1000, 50, "gang of 1,000")]
)
def test_a_pod_s_end_costs_the_same_in_a_small_gang_and_in_a_large_one(world, spending, size, ends, of):
    group = running_gang(world, size)
    plural = "" if ends == 1 else "s"
    with spending(f"observer writes the end of {ends} pod{plural}"):
        write(world.uid, ends_of(group, ends))
    with spending(f"reconcile of {ends} end{plural} in a {of}"):
        world.reconcile(group)
    assert Task.objects.filter(group=group, status="COMPLETED").count() == ends


def test_a_reconcile_of_a_gang_in_which_nothing_changed_reads_no_pod(world, spending):
    group = running_gang(world, 1000)
    with spending("reconcile of a gang of 1,000 in which nothing changed"):
        world.reconcile(group)


@pytest.mark.parametrize(
    ("pods", "nvlink", "step"),
    [(1, False, "life of a group of 1 task"), (8, True, "life of a group of 8 tasks with NVLink")],
)
def test_the_life_of_a_group(world, spending, pods, nvlink, step):
    """From its first reconcile until it is released; observer and worker take turns."""
    group = world.group(pods=pods, pool=world.pool(nvlink=nvlink))
    with spending(step):
        for _ in range(20):
            world.step(group)
            if fresh(group).status == "RUNNING":
                world.finish(group)
            if fresh(group).released_at is not None:
                break
    assert fresh(group).status == "COMPLETED"
    assert fresh(group).released_at is not None
    assert world.cluster.names(POD) == []
