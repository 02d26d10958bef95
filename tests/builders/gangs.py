"""Groups in a world: what their tasks require and prefer, and how they recover."""

from datetime import timedelta

from django.utils import timezone

from cluster.kinds import POD
from pools.values.recovery import RecoveryPolicy, Response
from tests.factories import LEVELS, TaskFactory, TaskGroupFactory
from workflows.manifests.group import render_group
from workflows.models import Task, TaskGroup
from workflows.selectors import group_values
from workflows.values.placement import GroupPlacement

SIZES = {"five": 5, "four": 4, "three": 3, "tre": 3}
NATIVE = {"scheduler_type": "kubernetes", "scheduler_name": "default-scheduler", "scheduler_version": "1.37"}
CONDITION = {
    "status": "True",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00",
    "observedRevision": 1,
}
NESTING = NATIVE | {
    "conditions": [
        CONDITION | {"type": "Reachable", "reason": "Probed"},
        CONDITION | {"type": "CompositesHeld", "reason": "Held"},
    ]
}
"""The same, with a scheduler that is known to hold sets inside sets."""

REQUEUE = RecoveryPolicy(preempted=Response.REQUEUE, node_lost=Response.REQUEUE, backoff_first=0.001)


def retried(codes, *, times=1):
    """What is frozen of a group whose tasks are tried again for these exit codes."""
    return {"max_retry_per_task": times, "default_exit_actions": {"RESCHEDULE": codes}}


def required(key, group="default"):
    return {"key": key, "group": group, "required": True}


def preferred(key, group="default", *, wait=None):
    """A preference, held as required for ``wait`` seconds."""
    patience = {} if wait is None else {"wait_seconds": wait}
    return {"key": key, "group": group, "required": False, **patience}


def set_requirements(group, *requirements, sets):
    """One task for each of ``sets`` asks for that and ``requirements``; the row as a submission leaves it."""
    for task, own in zip(group.tasks.order_by("position"), sets, strict=True):
        spec = {**task.spec, "requirements": [*requirements, *own]}
        Task.objects.filter(pk=task.pk).update(spec=spec)
    values = group_values(group, GroupPlacement.from_json(group.placement))
    constraints = [constraint.as_json() for constraint in render_group(values).constraints]
    TaskGroup.objects.filter(pk=group.pk).update(constraints=constraints)


def topology_gang(world, *requirements, sets=((), ()), pool=None, **changes):
    """A group of one task for each of ``sets``, in a pool with every level."""
    group = world.group(pods=len(sets), pool=pool or world.pool(levels=LEVELS), **changes)
    set_requirements(group, *requirements, sets=sets)
    return group


def set_frozen(group, **values):
    """Values of the placement of a group, as a submission of another pool or document freezes them."""
    group.placement |= values
    TaskGroup.objects.filter(pk=group.pk).update(placement=group.placement)


def recovering_gang(world, *, policy=REQUEUE, pods=3, pool=None, **frozen):
    """A group that is tried again as a whole, as far as its world brings it."""
    group = world.group(pods=pods, pool=pool)
    set_frozen(group, attempts=True, recovery=policy.to_json(), **frozen)
    world.settle()
    group.refresh_from_db()
    return group


def waiting_gang(pool, *, sizes=SIZES, age=0):
    """A gang of one set in a rack for each of ``sizes``, whose objects all exist; no pod has a node."""
    since = timezone.now() - timedelta(seconds=age)
    group = TaskGroupFactory(pool=pool, pods=0, status="SCHEDULING", created_in_cluster_at=since)
    names = [(name, number) for name, size in sizes.items() for number in range(size)]
    for position, (name, number) in enumerate(names):
        TaskFactory(group=group, name=f"{name}-{number}", position=position, placement__gpu=8)
    set_requirements(group, sets=[[required("rack", name)] for name, _ in names])
    TaskGroup.objects.filter(pk=group.pk).update(submit_time=since)
    return group


def native_gang(world, *, pods=3, nvlink=False, policy=None, frozen=None):
    """A gang without a lead on Kubernetes' own scheduler, not yet made."""
    pool = world.pool(nvlink=nvlink, backend=NATIVE, levels=LEVELS)
    group = world.group(pods=pods, pool=pool, frozen=frozen or {}, ignore_nonlead_status=False)
    Task.objects.filter(group=group).update(lead=False)
    if policy is not None:
        set_frozen(group, attempts=True, recovery=policy.to_json())
    return group


def pod_of(group, task):
    """The pod of the latest try of a task."""
    return group.tasks.get(name=task, latest=True).pod_name


def set_finalizers(world, pod, finalizers):
    world.cluster.edit(POD, pod, lambda obj: obj["metadata"].update(finalizers=finalizers), namespace="osmo")
