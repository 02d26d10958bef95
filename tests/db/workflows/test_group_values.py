"""What rendering reads of a group's rows."""

import pytest

from tests.factories import TaskGroupFactory
from workflows.selectors import group_values
from workflows.values.placement import GroupPlacement, TaskPlacement

pytestmark = pytest.mark.django_db


def test_tasks_that_are_frozen_alike_share_one_placement():
    group = TaskGroupFactory(pods=4)
    last = group.tasks.last()
    last.spec |= {"args": ["--rank", "3"]}
    last.save()
    tasks = group_values(group, GroupPlacement.from_json(group.placement)).tasks
    rows = group.tasks.order_by("position")
    assert [task.placement for task in tasks] == [TaskPlacement.from_json(row.spec) for row in rows]
    assert tasks[1].placement is tasks[2].placement
