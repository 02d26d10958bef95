"""Groups as values, for tests that need no database."""

from uuid import UUID

from scheduling.terms import SchedulingTerms
from scheduling.topology.levels import Level
from tests.builders.terms import changed
from workflows.reconcile.objects.plan import PodManifests
from workflows.values.placement import GroupPlacement, GroupValues, TaskPlacement, TaskTry

ZONE, RACK = Level("zone", "topo/zone"), Level("rack", "topo/rack")
GROUP = UUID(int=7)


def placement(**changes):
    terms = SchedulingTerms(
        installation=UUID(int=1),
        pool="h100",
        pool_revision=1,
        backend="east",
        namespace="osmo",
        scheduler_type="kai",
        scheduler_name="kai-scheduler",
        queue="osmo-pool-osmo-h100",
        levels=(ZONE, RACK),
    )
    return changed(
        GroupPlacement(
            terms=terms,
            priority_class="osmo-normal",
            exec_timeout=60.0,
            queue_timeout=60.0,
            workflow_name="train-1",
            workflow_uuid=UUID(int=2),
            submitted_by="ann@example.com",
        ),
        **changes,
    )


def one_try(name, number, *, retry_id=0, generation=0, **changes):
    frozen = TaskPlacement(**{"image": "busybox", "command": ("true",), "gpu": 1, **changes})
    return TaskTry(
        task_uuid=UUID(int=100 + number),
        name=name,
        retry_id=retry_id,
        placement=frozen,
        generation=generation,
    )


def group(tasks, *, earlier=(), **changes):
    return GroupValues(
        uuid=GROUP,
        name="group",
        generation=0,
        placement=placement(**changes),
        tasks=tuple(tasks),
        earlier=earlier,
    )


def manifests(pods):
    """These pods as what a group's objects have."""
    by_name = {pod["metadata"]["name"]: pod for pod in pods}
    return PodManifests(by_name, lambda name: dict(by_name[name]))
