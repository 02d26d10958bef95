"""Forms of gangs in rows (``scheduling.gang.gang_form``), by values of JSON."""

from collections.abc import Iterable
from typing import Any

from workflows.models import TaskGroup


def put_form(groups: Iterable[TaskGroup], **values: Any) -> None:
    """Give these groups a form with these values, and otherwise the one that they have."""
    for group in groups:
        TaskGroup.objects.filter(pk=group.pk).update(form={**group.form, **values})


def propose_form(groups: Iterable[TaskGroup], **values: Any) -> None:
    """Propose them such a form."""
    for group in groups:
        TaskGroup.objects.filter(pk=group.pk).update(other_form={**group.form, **values})
