"""How many sessions a user has, and a pool, in all web processes together: counted in Redis.

Each socket is a member of two sorted sets, those of its user and its pool, until the moment that is its
score. Its process puts that moment off every few seconds, so sockets of a process that was killed count for
half a minute more. One script counts and adds, so that two processes cannot both take the last place.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, cast

from django.conf import settings

from scheduling.errors import Busy, Unavailable
from web.limits.redis_server import shared_redis
from workflows.sessions.losses import Losses
from workflows.sessions.open_session import OpenSession
from workflows.sessions.tickets import Ticket

COUNTED_SECONDS: Final = 30
"""How long a socket counts after its process last said that it is open: for several of its looks."""

AGAIN_SECONDS: Final = 5
MOST_PORTS: Final = 30
"""Ports of one task that a user forwards at a time; together they are one session."""

_USER, _POOL = "osmo-topology:sessions-of-user:", "osmo-topology:sessions-of-pool:"

_COUNT: Final = """
-- KEYS: the sets of the user and the pool, whose members are words "session socket".
-- ARGV: now, until when the socket counts, most sessions of user and pool, most sockets of a session,
-- the socket (empty to ask only), and the session of each socket that is to come.
for place, key in ipairs(KEYS) do
    redis.call('ZREMRANGEBYSCORE', key, '-inf', ARGV[1])
    local sessions, sockets = 0, {}
    local function count(session)
        if not sockets[session] then
            sessions, sockets[session] = sessions + 1, 0
        end
        sockets[session] = sockets[session] + 1
    end
    for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do
        count(string.match(member, '^%S+'))
    end
    local present = sessions
    for position = 7, #ARGV do
        count(ARGV[position])
    end
    if sessions > present and sessions > tonumber(ARGV[2 + place]) then
        return {place, present, sessions - present}
    end
    if sockets[ARGV[7]] > tonumber(ARGV[5]) then
        return {3, sockets[ARGV[7]] - (#ARGV - 6), #ARGV - 6}
    end
end
if ARGV[6] ~= '' then
    for _, key in ipairs(KEYS) do
        redis.call('ZADD', key, ARGV[2], ARGV[7] .. ' ' .. ARGV[6])
        redis.call('EXPIRE', key, ARGV[2] - ARGV[1])
    end
end
return {0, 0, 0}
"""


def check(tickets: Sequence[Ticket]) -> None:
    """Raise Busy if these tickets of one user and pool are too many, Unavailable without Redis."""
    _count(tickets, socket="")


def enter(session: OpenSession) -> None:
    """Count a socket, in a thread. Raises Busy, Unavailable."""
    _count([session.ticket], socket=session.ticket.session)


def leave(session: OpenSession) -> None:
    """Count a socket no more, in a thread; without Redis it lapses by itself."""
    with suppress(Unavailable), shared_redis() as redis, redis.pipeline(transaction=False) as pipe:
        _remove(session, pipe)
        pipe.execute()


def stay(sessions: Iterable[OpenSession]) -> Losses:
    """Let the sockets of this process count on; ends no session. Raises Unavailable."""
    present = [session for session in sessions if session.is_counted]
    with shared_redis() as redis:
        until = _now(redis) + COUNTED_SECONDS
        with redis.pipeline(transaction=False) as pipe:
            for session in present:
                for key in _keys(session.ticket):
                    pipe.zadd(key, {_member(session.ticket): until})
                    pipe.expire(key, COUNTED_SECONDS)
            pipe.execute()
            for session in present:
                if not session.is_counted:  # it has left meanwhile, perhaps before it was put off
                    _remove(session, pipe)
            pipe.execute()
    return {}


def _count(tickets: Sequence[Ticket], *, socket: str) -> None:
    env, ticket = settings.ENV, tickets[0]
    most = (env.user_sessions, env.pool_sessions, MOST_PORTS)
    with shared_redis() as redis:
        now = _now(redis)
        values: list[int | str] = [
            now,
            now + COUNTED_SECONDS,
            *most,
            socket,
            *(each.counted_as for each in tickets),
        ]
        answer = cast("list[int]", redis.eval(_COUNT, 2, *_keys(ticket), *values))
    place, number, more = answer
    if place == 0:
        return
    whose = f"Pool {ticket.target.pool} has" if place == 2 else "You have"
    noun = "forwarded ports of this task" if place == 3 else "sessions in tasks"
    raise Busy(
        f"{whose} {number} {noun}, and {more} more would be too many: {most[place - 1]} may be at a time. "
        "End some, or try again.",
        retry_after=AGAIN_SECONDS,
    )


def _now(redis: Any) -> int:
    """By the clock that all processes share."""
    return int(redis.time()[0])


def _keys(ticket: Ticket) -> tuple[str, str]:
    return f"{_USER}{ticket.user}", f"{_POOL}{ticket.target.pool}"


def _member(ticket: Ticket) -> str:
    return f"{ticket.counted_as} {ticket.session}"


def _remove(session: OpenSession, pipe: Any) -> None:
    for key in _keys(session.ticket):
        pipe.zrem(key, _member(session.ticket))
