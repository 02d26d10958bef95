"""Which events of a timeline are news: the one place where kinds follow from events. Pure."""

from collections.abc import Iterable, Iterator

from workflows.lifecycle.statuses import WORKFLOW_TERMINAL, WorkflowStatus
from workflows.models import Event
from workflows.news.outbox import NewsChange

_OF_GROUPS = {
    "NewAttempt": "new_attempt",
    "PlacementDegraded": "degraded",
    "PlacementViolated": "degraded",
    "NodesRelabelled": "degraded",
    "ReleaseStuck": "release_stuck",
}
_OF_WORKFLOW = {f"workflow:{WorkflowStatus.RUNNING}": "began"} | {
    f"workflow:{status}": "ended" for status in WORKFLOW_TERMINAL
}


def changes_in(events: Iterable[Event]) -> Iterator[NewsChange]:
    """The news in new events of the service."""
    for event in events:
        if kind := _kind(event):
            yield NewsChange(
                workflow=event.workflow_id,
                kind=kind,
                key=event.dedupe,
                time=event.time,
                sentence=event.message,
                group=event.group.name if event.group else "",
                status=event.dedupe.partition(":")[2] if event.group is None else "",
            )


def _kind(event: Event) -> str:
    if event.group_id is None:
        return _OF_WORKFLOW.get(event.dedupe, "")
    return _OF_GROUPS.get(event.reason, "") if event.warning else ""
