"""Adding events to timelines so that none grows for ever.

A cluster can repeat what an event says as long as a group lives: a node leaves its ComputeDomain and comes
back, a label goes and returns. The first ``MOST_ALIKE`` events of a reason are lines of their own; each later
one takes the place of the last, which counts what it stands for. Rejected: a bound for each reason, which
every new reason would need, and leaving events out, which would hide the present state.
"""

from collections import defaultdict
from collections.abc import Sequence

from workflows.models import Event

SOURCE = "osmo-topology"
MOST_ALIKE = 10
"""How many events of one reason a group has as lines of their own."""


def add(events: Sequence[Event], *, beside: Sequence[Event] = ()) -> None:
    """Add events of groups that the caller has locked; one that is there already is left out. Two queries.

    Those ``beside`` them are of steps that happen once: they are lines of their own.
    """
    lines = [*beside, *_lines(events)]
    Event.objects.bulk_create(lines, ignore_conflicts=True, batch_size=1000)


def _lines(events: Sequence[Event]) -> list[Event]:
    """The new lines; the other events take the place of the last one of their reason."""
    new: list[Event] = []
    if not events:
        return new
    alike: defaultdict[tuple[object, str], list[Event]] = defaultdict(list)
    rows = Event.objects.filter(
        group__in={event.group_id for event in events},
        reason__in={event.reason for event in events},
        source=SOURCE,
        task_name="",
    )
    for line in rows.order_by("id"):
        alike[line.group_id, line.reason].append(line)
    for event in events:
        lines = alike[event.group_id, event.reason]
        if any(line.dedupe == event.dedupe for line in lines):
            continue
        if len(lines) < MOST_ALIKE:
            new.append(event)
        else:
            _take_place(event, lines[-1])
    return new


def _take_place(event: Event, last: Event) -> None:
    last.repeats += 1
    last.time, last.warning, last.dedupe = event.time, event.warning, event.dedupe
    last.message = f"{event.message} (This line stands for {last.repeats + 1} events since the one before.)"
    last.save(update_fields=["repeats", "time", "warning", "dedupe", "message"])
