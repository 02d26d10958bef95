"""A session begins if what its key was given for still holds: a minute may lie between."""

from workflows.sessions.audit import SessionRecord
from workflows.sessions.losses import lost_logins, lost_rights, lost_tasks
from workflows.sessions.open_session import OpenSession


def begin(session: OpenSession, record: SessionRecord) -> str:
    """Record a session; else say why it may not begin. In a thread."""
    why = loss_of(session)
    if not why:
        record.begin()
    return why


def loss_of(session: OpenSession) -> str:
    """Why a session may not begin; empty if it may."""
    losses = lost_tasks([session]) | lost_logins([session]) | lost_rights([session])
    return losses.get(session, "")
