"""What pools ask about running work: whoever answers answers in the same shape."""

from datetime import timedelta

import pytest
from django.utils import timezone

from pools.interfaces import ComputeDomains, ObservedComputeDomain, Unreleased
from tests.factories import PoolFactory, TaskGroupFactory
from tests.fakes.usage import Usage
from workflows.models import ObservedObject, TaskGroup, Workflow
from workflows.usage import WorkflowUsage

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("answers", [Usage, WorkflowUsage])
def test_where_nothing_runs_every_answer_is_none(answers):
    asked = answers()
    assert asked.live_workflows("train") == 0
    assert dict(asked.living_by_pool()) == {}
    assert asked.compute_domains("train", most=20) == ComputeDomains()
    assert asked.unreleased_in_pool("train").groups == Unreleased().groups
    assert asked.unreleased_groups(1) == 0
    assert asked.needed_topologies("c") == set()
    assert asked.needed_queues("c") == set()
    assert asked.needed_priority_classes("c") == set()


def domain(group, *, nodes=(), **changes):
    status = {"status": "NotReady", "nodes": [{"status": node} for node in nodes]}
    values = {"name": f"cd-{group.pk.hex}", "uid": group.pk.hex, "digest": {"status": status}} | changes
    return ObservedObject.objects.create(
        cluster=group.backend.cluster,
        kind="ComputeDomain",
        namespace=group.placement["namespace"],
        group_uuid=group.pk,
        seen_at=timezone.now(),
        **values,
    )


def test_the_compute_domains_of_a_pool_are_counted_and_the_newest_described():
    pool, other = PoolFactory(nvlink=True), PoolFactory(nvlink=True)
    since = timezone.now() - timedelta(hours=1)
    old, new, gone = (TaskGroupFactory(pool=pool, created_in_cluster_at=since) for _ in range(3))
    for group in (old, gone, TaskGroupFactory(pool=other)):
        domain(group)
    domain(new, nodes=("Ready", "Ready", "NotReady"), deleting=True)
    TaskGroup.objects.filter(pk=gone.pk).update(status="COMPLETED", released_at=timezone.now())
    found = WorkflowUsage().compute_domains(pool.name, most=1)
    assert found.count == 2
    assert found.newest == (
        ObservedComputeDomain(new.name, new.workflow.name, f"cd-{new.pk.hex}", "Deleting", 2, 3, since),
    )


def test_workflows_that_have_not_ended_are_counted_by_pool():
    first, second = PoolFactory(), PoolFactory()
    for pool in (first, first, second):
        TaskGroupFactory(pool=pool)
    ended = TaskGroupFactory(pool=second).workflow
    Workflow.objects.filter(pk=ended.pk).update(status="COMPLETED")
    assert WorkflowUsage().living_by_pool() == {first.name: 2, second.name: 1}
