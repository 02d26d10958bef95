"""Adding events to timelines so that none grows for ever.

A cluster can repeat what an event says as long as a group lives: a node leaves its ComputeDomain and comes
back, a label goes and returns. The first ``MOST_ALIKE`` events of a reason are lines of their own; each later
one takes the place of the last, which counts what it stands for. Rejected: a bound for each reason, which
every new reason would need, and leaving events out, which would hide the present state.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connection
from pydantic_core import to_json

from web.database.model_rows import Columns
from workflows.models import Event
from workflows.news.changes import changes_in
from workflows.news.outbox import announce, announcing

SOURCE = "osmo-topology"
MOST_ALIKE = 10
"""How many events of one reason a group has as lines of their own."""

_COLUMNS = (
    "workflow_id",
    "group_id",
    "task_name",
    "retry_id",
    "time",
    "source",
    "warning",
    "reason",
    "message",
    "dedupe",
)
_INSERT = """
    INSERT INTO workflows_event
           (workflow_id, group_id, task_name, retry_id, time, source, warning, reason, message, dedupe)
    SELECT * FROM json_to_recordset(%(lines)s)
        AS line(workflow_id uuid, group_id uuid, task_name text, retry_id int, time timestamptz, source text,
                warning boolean, reason text, message text, dedupe text)
        ON CONFLICT DO NOTHING
"""
_EVENT = Columns(Event)
_ALIKE = f"""
    SELECT {_EVENT.sql("e")} FROM workflows_event AS e
     WHERE group_id = ANY(%(groups)s) AND reason = ANY(%(reasons)s) AND source = %(source)s AND task_name = ''
     ORDER BY id
"""  # noqa: S608 -- names of columns


def add(events: Sequence[Event], *, beside: Sequence[Event] = ()) -> None:
    """Add events of groups that the caller has locked; one that is there already is left out. Two queries.

    Those ``beside`` them are of steps that happen once: they are lines of their own.
    """
    lines, raised = _lines(events)
    changes = [*changes_in([*beside, *raised])]
    if lines := [*beside, *lines]:
        insert(lines, *announcing(_INSERT, changes))
    else:
        announce(changes)


def insert(lines: Sequence[Event], statement: str = _INSERT, values: Mapping[str, Any] | None = None) -> None:
    """Write events as lines of their own but for those that are there already."""
    rows = to_json([{name: getattr(line, name) for name in _COLUMNS} for line in lines])
    with connection.cursor() as cursor:
        cursor.execute(statement, {**(values or {}), "lines": rows.decode()})


def _lines(events: Sequence[Event]) -> tuple[list[Event], list[Event]]:
    """The new lines, and the events that are not there yet, some of which take the place of another one."""
    new: list[Event] = []
    raised: list[Event] = []
    if not events:
        return new, raised
    alike: defaultdict[tuple[object, str], list[Event]] = defaultdict(list)
    values: dict[str, Any] = {
        "groups": list({e.group_id for e in events}),
        "reasons": list({e.reason for e in events}),
    }
    with connection.cursor() as cursor:
        cursor.execute(_ALIKE, values | {"source": SOURCE})
        rows = cursor.fetchall()
    for line in map(_EVENT.instance, rows):
        alike[line.group_id, line.reason].append(line)
    for event in events:
        lines = alike[event.group_id, event.reason]
        if any(line.dedupe == event.dedupe for line in lines):
            continue
        raised.append(event)
        if len(lines) < MOST_ALIKE:
            new.append(event)
        else:
            _take_place(event, lines[-1])
    return new, raised


def _take_place(event: Event, last: Event) -> None:
    last.repeats += 1
    last.time, last.warning, last.dedupe = event.time, event.warning, event.dedupe
    last.message = f"{event.message} (This line stands for {last.repeats + 1} events since the one before.)"
    last.save(update_fields=["repeats", "time", "warning", "dedupe", "message"])
