"""Every session is a line of its workflow's timeline, written before it begins and completed at its end.

A session that cannot be recorded does not begin. The log has the same facts, also of workflows that are
removed since.
"""

import shlex
import uuid
from dataclasses import dataclass, field
from datetime import datetime

import structlog
from django.utils import timezone

from scheduling.sentences import in_seconds
from workflows.models import Event
from workflows.services import timeline
from workflows.sessions.tickets import EXEC, Ticket

MOST_COMMAND = 1000
REASON = "Session"

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class SessionRecord:
    """One session's line; ``began_at`` is set when it is written."""

    ticket: Ticket
    dedupe: str = field(default_factory=lambda: f"session {uuid.uuid4().hex}")
    began_at: datetime | None = None

    def begin(self) -> None:
        """Write the line. In a thread."""
        target, self.began_at = self.ticket.target, timezone.now()
        log.info("session_began", session=self.dedupe, **self._facts())
        event = Event(
            workflow_id=target.workflow,
            group_id=target.group,
            task_name=target.task,
            retry_id=target.retry,
            time=self.began_at,
            source=timeline.SOURCE,
            reason=REASON,
            message=f"{self._deed()}.",
            dedupe=self.dedupe,
        )
        timeline.add([], beside=[event])

    def end(self, *, why: str, received: int, sent: int) -> None:
        """Complete the line. In a thread."""
        if self.began_at is None:
            return
        seconds = (timezone.now() - self.began_at).total_seconds()
        log.info(
            "session_ended",
            session=self.dedupe,
            why=why,
            seconds=round(seconds, 3),
            bytes_received=received,
            bytes_sent=sent,
            **self._facts(),
        )
        message = (
            f"{self._deed()}, for {in_seconds(round(seconds))}: {received:,} bytes to the task, "
            f"{sent:,} bytes from it. {why}"
        )
        Event.objects.filter(workflow_id=self.ticket.target.workflow, dedupe=self.dedupe).update(
            message=message
        )

    def _deed(self) -> str:
        ticket = self.ticket
        caller = f"{ticket.username} from {ticket.address}"
        if ticket.kind == EXEC:
            return f"{caller} ran {command_text(ticket)} in the task"
        return f"{caller} forwarded {command_text(ticket)} of the task"

    def _facts(self) -> dict[str, str]:
        ticket, target = self.ticket, self.ticket.target
        return {
            "user": ticket.username,
            "address": ticket.address,
            "workflow": target.workflow_name,
            "task": target.task,
            "pod": target.pod,
            "kind": ticket.kind,
            "command": command_text(ticket),
        }


def command_text(ticket: Ticket) -> str:
    text = shlex.join(ticket.command) if ticket.kind == EXEC else f"port {ticket.port}"
    return text if len(text) <= MOST_COMMAND else f"{text[:MOST_COMMAND]}..."
