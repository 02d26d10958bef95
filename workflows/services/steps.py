"""What one record of a group's changes collects: fields to save, and events."""

from datetime import datetime

from django.db import connection

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


def database_now() -> datetime:
    """The database's clock, the only one that rows are compared with."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now
