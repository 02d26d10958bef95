"""A wide workflow: many groups of one task each, written at once."""

import uuid

from scheduling import names
from tests.factories import TaskGroupFactory
from workflows.models import Task, TaskGroup


def widened(group, *, groups):
    """The group's workflow with so many groups like it, each with a task; returns the workflow."""
    task = group.tasks.get()
    rows = [_copy(group, uuid=uuid.uuid4(), position=n, name=f"group-{n}") for n in range(1, groups)]
    TaskGroup.objects.bulk_create(rows)
    Task.objects.bulk_create(_task(task, row) for row in rows)
    return group.workflow


def wide_workflow(*, groups, **fields):
    return widened(TaskGroupFactory(position=0, name="group-0", **fields), groups=groups)


def _task(task, group, **changes):
    key = uuid.uuid4()
    return _copy(task, pk=None, group=group, task_uuid=key, pod_name=names.pod(key, retry=0), **changes)


def _copy(row, **changes):
    fields = {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}
    for name in changes:
        fields.pop(f"{name}_id", None)
    return type(row)(**fields | changes)
