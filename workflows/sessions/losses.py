"""Which sessions have lost what they stand on: their user's rights, their pool's leave, their task.

All sessions of a process are asked about at once, when a session begins and then every few seconds.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.utils import timezone

from pools.models import Pool
from web.access.rights import ExternalRights, read_many_grants
from web.models import PersonalToken
from web.policy import Action
from workflows.lifecycle.statuses import TaskStatus
from workflows.models import Task
from workflows.sessions.open_session import OpenSession
from workflows.sessions.targets import may_enter
from workflows.sessions.tickets import CONNECTION, EXEC, PORTFORWARD

Losses = dict[OpenSession, str]
"""The sentence with which a session ends."""

_FORWARDS = (Action.WORKFLOW_PORT_FORWARD, "allow_port_forward")
NEEDS: Final[Mapping[str, tuple[Action, str]]] = {
    EXEC: (Action.WORKFLOW_EXEC, "allow_exec"),
    PORTFORWARD: _FORWARDS,
    CONNECTION: _FORWARDS,
}
"""For each kind the action that its user needs on the pool, and the setting that the pool needs."""


def lost_rights(sessions: Sequence[OpenSession]) -> Losses:
    """Of sessions those whose user may no longer have them, and why. Three queries."""
    users = User.objects.in_bulk({session.ticket.user for session in sessions})
    names = {session.ticket.target.pool for session in sessions}
    fields = {setting for _, setting in NEEDS.values()}
    pools = {row["name"]: row for row in Pool.objects.filter(name__in=names).values("name", *fields)}
    callers = [_caller(users.get(session.ticket.user), session.login.external) for session in sessions]
    losses = {}
    for session, user, grants in zip(sessions, callers, read_many_grants(callers), strict=True):
        action, setting = NEEDS[session.ticket.kind]
        pool, submitted_by = session.ticket.target.pool, session.ticket.target.submitted_by
        if (
            user is None
            or not user.is_active
            or not grants.allows(action, f"pool/{pool}")
            or not may_enter(grants, username=user.username, submitted_by=submitted_by, pool=pool)
        ):
            losses[session] = "Your right to this session was taken away."
        elif not pools.get(pool, {}).get(setting):
            losses[session] = f"Pool {pool} does not allow this any more."
    return losses


def lost_logins(sessions: Sequence[OpenSession]) -> Losses:
    """Of sessions those whose login has ended. Three queries."""
    now = timezone.now()
    tokens = PersonalToken.objects.filter(digest__in={session.login.token for session in sessions} - {""})
    browsers = Session.objects.filter(pk__in={session.login.browser for session in sessions} - {""})
    living = {
        "",
        *tokens.exclude(expiry__lte=now).values_list("digest", flat=True),
        *browsers.filter(expire_date__gt=now).values_list("pk", flat=True),
    }
    users = User.objects.in_bulk({session.ticket.user for session in sessions if session.login.password})
    passwords = {pk: user.get_session_auth_hash() for pk, user in users.items()}
    return {
        session: "The login of this session was revoked or has expired."
        for session in sessions
        if not {session.login.token, session.login.browser} <= living
        or session.login.password not in {"", passwords.get(session.ticket.user)}
    }


def _caller(user: User | None, external: ExternalRights | None) -> User | None:
    """A user of this session alone: what a gateway says of a caller holds for its connection."""
    if user is None:
        return None
    own = User(
        **{name: getattr(user, name) for name in ("pk", "username", "is_active", "is_staff", "is_superuser")}
    )
    own.external = external  # type: ignore[attr-defined]  # as authentication leaves it
    return own


def lost_tasks(sessions: Iterable[OpenSession]) -> Losses:
    """Of sessions those whose try of a task does not run. One query.

    Connections end with their forward.
    """
    sessions = [session for session in sessions if session.ticket.kind != CONNECTION]
    groups = {UUID(session.ticket.target.group) for session in sessions}
    rows = Task.objects.filter(group_id__in=groups, status=TaskStatus.RUNNING)
    running = {
        (str(group), name, retry) for group, name, retry in rows.values_list("group_id", "name", "retry_id")
    }
    losses = {}
    for session in sessions:
        target = session.ticket.target
        if (target.group, target.task, target.retry) not in running:
            losses[session] = (
                f"Task {target.task} is not running any more in workflow {target.workflow_name}."
            )
    return losses
