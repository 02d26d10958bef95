"""What the processes of a forward share, in Redis: that its control socket is open, and its bytes.

A connection may be in another process than the control socket that announced it. Each process writes and
reads this for all its sessions at once, every few seconds. A forward that is not there is over, also when
Redis was emptied: its connections are cut, and its caller opens others.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

import structlog

from scheduling.errors import Unavailable
from web.limits.redis_server import shared_redis
from workflows.sessions.open_session import OpenSession
from workflows.sessions.tickets import CONNECTION, PORTFORWARD

OPEN_SECONDS: Final = 20
"""How long a forward counts as open after its process last said so: for several of its looks."""

BYTES_SECONDS: Final = 86_400
_OPEN, _BYTES = "osmo-topology:forward:", "osmo-topology:forward-bytes:"

log = structlog.get_logger(__name__)


def begin(control: str) -> None:
    """Let a forward's connections begin. Raises Unavailable."""
    with shared_redis() as redis:
        redis.set(_OPEN + control, 1, ex=OPEN_SECONDS)


def close(control: str) -> None:
    """Void a forward's keys, and let its connections end. Raises Unavailable."""
    with shared_redis() as redis:
        redis.delete(_OPEN + control)


def enter(control: str) -> bool:
    """Count a connection of a forward; false if it is not open any more. Raises Unavailable."""
    with shared_redis() as redis, redis.pipeline(transaction=False) as pipe:
        pipe.exists(_OPEN + control)
        pipe.hincrby(_BYTES + control, "connections", 1)
        pipe.expire(_BYTES + control, BYTES_SECONDS)
        return bool(pipe.execute()[0])


def leave(connection: OpenSession) -> None:
    """Add the last of what a connection has carried. Raises Unavailable."""
    with shared_redis() as redis, redis.pipeline(transaction=False) as pipe:
        _report(connection, pipe)
        pipe.hincrby(_BYTES + connection.ticket.session, "connections", -1)
        pipe.execute()


def totals(control: str) -> tuple[int, int, int]:
    """Bytes of a forward's connections, in and out, and how many are open. Raises Unavailable."""
    with shared_redis() as redis:
        received, sent, connections = redis.hmget(_BYTES + control, "received", "sent", "connections")
    return int(received or 0), int(sent or 0), int(connections or 0)


def lost_forwards(sessions: Sequence[OpenSession]) -> dict[OpenSession, str]:
    """Of connections those whose forward has ended."""
    sessions = [session for session in sessions if not session.over.done()]
    controls = [session for session in sessions if session.ticket.kind == PORTFORWARD]
    connections = [session for session in sessions if session.ticket.kind == CONNECTION]
    try:
        return _of_ended_forwards(controls, connections)
    except Unavailable as error:
        log.warning("forwards_unread", error=error.message)
        return {}


def _of_ended_forwards(controls: list[OpenSession], connections: list[OpenSession]) -> dict[OpenSession, str]:
    """The connections whose forward has ended, after word of the forwards that are open here."""
    with shared_redis() as redis, redis.pipeline(transaction=False) as pipe:
        for session in controls:
            pipe.set(_OPEN + session.ticket.session, 1, ex=OPEN_SECONDS)
            pipe.hmget(_BYTES + session.ticket.session, "received", "sent")
        for session in connections:
            _report(session, pipe)
            pipe.exists(_OPEN + session.ticket.session)
        answers = iter(pipe.execute())
    for session in controls:
        _, values = next(answers), next(answers)
        received, sent = (int(value or 0) for value in values)
        if received > session.received or sent > session.sent:
            session.count(received=received - session.received, sent=sent - session.sent)
    ends = [list(islice(answers, 4))[-1] for _ in connections]
    return {
        session: "The forward has ended."
        for session, goes_on in zip(connections, ends, strict=True)
        if not goes_on
    }


def _report(session: OpenSession, pipe: Any) -> None:
    """Three commands: what is new since the last time."""
    key, (received, sent) = _BYTES + session.ticket.session, session.reported
    session.reported = (session.received, session.sent)
    pipe.hincrby(key, "received", session.reported[0] - received)
    pipe.hincrby(key, "sent", session.reported[1] - sent)
    pipe.expire(key, BYTES_SECONDS)
