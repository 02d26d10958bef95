"""Every session is a line of its workflow's timeline, written before it begins and completed at its end.

A session that cannot be recorded does not begin. The log has the same facts, also of workflows that are
removed since.
"""

import hashlib
import shlex
import threading
import uuid
from dataclasses import dataclass, field
from datetime import datetime

import structlog
from django.utils import timezone

from scheduling.sentences import in_seconds, printable
from workflows.models import Event
from workflows.services import timeline
from workflows.sessions import open_lines
from workflows.sessions.tickets import EXEC, Ticket

MOST_COMMAND = 1000
REASON = "Session"

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class SessionRecord:
    """One session's line; ``began_at`` is set when it is written.

    A session that is cut while its line is being written has its end in another thread, perhaps first.
    """

    ticket: Ticket
    dedupe: str = field(default_factory=lambda: f"session {uuid.uuid4().hex}")
    began_at: datetime | None = None
    _ended_at: datetime | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self) -> None:
        """Write the line, unless the session has ended. In a thread."""
        with self._lock:
            if self._ended_at is None:
                self._write_begin()

    def end(self, *, why: str, received: int, sent: int) -> None:
        """Complete the line; may be repeated. In a thread."""
        with self._lock:
            is_first, self._ended_at = self._ended_at is None, self._ended_at or timezone.now()
            if self.began_at is not None:
                seconds = (self._ended_at - self.began_at).total_seconds()
                self._write_end(why, received=received, sent=sent, seconds=seconds, is_first=is_first)

    def _write_begin(self) -> None:
        target, self.began_at = self.ticket.target, timezone.now()
        open_lines.note(self.dedupe, workflow=target.workflow)
        log.info("session_began", session=self.dedupe, **self._facts())
        event = Event(
            workflow_id=target.workflow,
            group_id=target.group,
            task_name=target.task,
            retry_id=target.retry,
            time=self.began_at,
            source=timeline.SOURCE,
            reason=REASON,
            message=f"{self._deed()}{open_lines.OPEN_END}",
            dedupe=self.dedupe,
        )
        timeline.add([], beside=[event])

    def _write_end(self, why: str, *, received: int, sent: int, seconds: float, is_first: bool) -> None:
        if is_first:
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
            f"{self._deed()} the task, for {in_seconds(round(seconds))}: {received:,} bytes to the task, "
            f"{sent:,} bytes from it. {printable(why)}"
        )
        Event.objects.filter(workflow_id=self.ticket.target.workflow, dedupe=self.dedupe).update(
            message=message
        )
        open_lines.forget(self.dedupe)

    def _deed(self) -> str:
        ticket = self.ticket
        caller = f"{ticket.username} from {ticket.address}"
        if ticket.kind == EXEC:
            return f"{caller} ran {_line_text(command_text(ticket))} in"
        return f"{caller} forwarded {command_text(ticket)} of"

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
    return shlex.join(ticket.command) if ticket.kind == EXEC else f"port {ticket.port}"


def _line_text(command: str) -> str:
    """A command as the timeline has it: cut, with what proves the rest, and nothing that a terminal obeys."""
    text = printable(command[:MOST_COMMAND])
    if len(command) <= MOST_COMMAND:
        return text
    digest = hashlib.sha256(command.encode(errors="backslashreplace")).hexdigest()
    return f"{text}... ({len(command):,} characters, SHA-256 {digest})"
