"""What a record of one group's changes collects: fields to save, and events."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from django.db import connection
from django.db.models import Model

from workflows.models import Event, TaskGroup
from workflows.services.changes import Change, NewAttempt, NewTry, NodeFailed, TaskMove
from workflows.services.timeline import SOURCE


class MovedTask(NamedTuple):
    """A try after its move; the fields are columns of its row."""

    pk: int
    status: str
    node_name: str
    pod_ip: str
    processing_start_time: datetime | None
    scheduling_start_time: datetime | None
    initializing_start_time: datetime | None


class Steps:
    """Collects what the changes of a group, which is locked since ``now``, mean for rows.

    ``tasks`` are the tries that moved. Where an attempt ``begins``, its event speaks for its tasks.
    """

    def __init__(self, group: TaskGroup, now: datetime, changes: Sequence[Change]) -> None:
        self.group, self.now = group, now
        self.moves = [change for change in changes if isinstance(change, TaskMove)]
        self.tries = [change for change in changes if isinstance(change, NewTry)]
        self.failed_nodes = {
            change.node: change.fault for change in changes if isinstance(change, NodeFailed)
        }
        self.of_group = [
            change for change in changes if not isinstance(change, TaskMove | NewTry | NodeFailed)
        ]
        self.begins = any(isinstance(change, NewAttempt) for change in self.of_group)
        self.tasks: list[MovedTask] = []
        self.fields: set[str] = set()
        self.events: list[Event] = []
        self.notes: list[Event] = []
        self._status_before = group.status

    @property
    def has_moved(self) -> bool:
        """Whether the status that users see is another one."""
        return bool(self.group.status != self._status_before)

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


def update_columns(rows: Sequence[Model], names: Collection[str]) -> None:
    """Write these fields of rows that have the same values there.

    ``Model.save`` takes longer to build the statement than it runs.
    """
    meta = rows[0]._meta  # noqa: SLF001 -- public
    by_name = {field.name: field for field in meta.concrete_fields}
    fields = [by_name[name] for name in sorted(names)]
    key = by_name[str(meta.pk.name)]
    columns = ", ".join(f"{field.column} = %s" for field in fields)
    values = [
        field.get_db_prep_save(getattr(rows[0], field.attname), connection=connection) for field in fields
    ]
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {meta.db_table} SET {columns} WHERE {key.column} = ANY(%s)",  # noqa: S608 -- names
            [*values, [row.pk for row in rows]],
        )


def database_now() -> datetime:
    """The database's clock, the only one that rows are compared with."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now
