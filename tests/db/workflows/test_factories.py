"""The rows tests are made of are sound: what is frozen in them reads back."""

import pytest

from tests.factories import LEVELS, PoolFactory, TaskGroupFactory
from workflows.values.placement import GroupPlacement, TaskPlacement

pytestmark = pytest.mark.django_db


def test_a_group_is_frozen_as_its_pool_was():
    pool = PoolFactory(levels=LEVELS, nvlink=True)
    group = TaskGroupFactory(pool=pool, pods=3, frozen={"max_retry_per_task": 2})
    placement = GroupPlacement.from_json(group.placement)
    assert (placement.terms.levels, placement.nvlink, placement.max_retry_per_task) == (LEVELS, True, 2)
    tasks = list(group.tasks.all())
    assert [task.lead for task in tasks] == [True, False, False]
    assert all(TaskPlacement.from_json(task.spec).claims_channel for task in tasks)


def test_groups_of_one_workflow_keep_their_order():
    first = TaskGroupFactory()
    second = TaskGroupFactory(workflow=first.workflow, pods=0)
    assert [first.position, second.position] == [0, 1]
