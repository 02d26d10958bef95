"""What pools hear of running work."""

import pytest

from tests.factories import CLIQUE, LEVELS, RACK, ZONE, PoolFactory, TaskGroupFactory, WorkflowFactory
from workflows.usage import WorkflowUsage

pytestmark = pytest.mark.django_db


def test_work_accepted_under_several_lists_of_keys_is_told_in_order():
    pool = PoolFactory()
    for levels in (LEVELS, (ZONE, CLIQUE), (), (RACK,), LEVELS):
        workflow = WorkflowFactory(pool=pool)
        TaskGroupFactory(pool=pool, workflow=workflow, frozen={"levels": levels})

    left = WorkflowUsage().unreleased_in_pool(pool.name)

    assert (left.workflows, left.groups) == (5, 5)
    assert [levels for _, levels in left.accepted] == [(), (RACK,), (ZONE, CLIQUE), LEVELS]
