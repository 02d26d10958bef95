"""What one record of a group's changes collects: fields to save, and events."""

from collections.abc import Collection
from datetime import datetime

from django.db import connection
from django.db.models import Model

from workflows.models import Event, TaskGroup
from workflows.services.timeline import SOURCE


class Steps:
    """Collects while a record goes. ``replaced`` are the rows of the tries that others follow."""

    def __init__(self, group: TaskGroup, now: datetime, *, replaced: list[int]) -> None:
        self.group, self.now, self.replaced = group, now, replaced
        self.fields: set[str] = set()
        self.events: list[Event] = []
        self.notes: list[Event] = []

    def put(self, **values: object) -> None:
        for name, value in values.items():
            if getattr(self.group, name) != value:
                setattr(self.group, name, value)
                self.fields.add(name)

    def event(
        self, *, key: str, reason: str, message: str, warning: bool, task: str = "", retry: int | None = None
    ) -> None:
        """Add an event of a step that happens once."""
        self.events.append(self._event(key, reason, message, warning=warning, task=task, retry=retry))

    def note(self, *, key: str, reason: str, message: str, warning: bool) -> None:
        """Add an event whose cause may come again as long as the group lives."""
        self.notes.append(self._event(f"note:{self.group.pk.hex}:{key}", reason, message, warning=warning))

    def _event(
        self, key: str, reason: str, message: str, *, warning: bool, task: str = "", retry: int | None = None
    ) -> Event:
        return Event(
            workflow_id=self.group.workflow_id,
            group=self.group,
            task_name=task,
            retry_id=retry,
            time=self.now,
            source=SOURCE,
            warning=warning,
            reason=reason[:128],
            message=message,
            dedupe=key[:160],
        )


def update_columns(row: Model, names: Collection[str]) -> None:
    """Write these fields of a row. ``Model.save`` takes longer to build the statement than it runs."""
    by_name = {field.name: field for field in row._meta.concrete_fields}  # noqa: SLF001 -- public
    fields = [by_name[name] for name in sorted(names)]
    key = by_name[str(row._meta.pk.name)]  # noqa: SLF001 -- public
    columns = ", ".join(f"{field.column} = %s" for field in fields)
    values = [
        field.get_db_prep_save(getattr(row, field.attname), connection=connection) for field in (*fields, key)
    ]
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {row._meta.db_table} SET {columns} WHERE {key.column} = %s", values)  # noqa: S608, SLF001 -- names


def database_now() -> datetime:
    """The database's clock, the only one that rows are compared with."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now
