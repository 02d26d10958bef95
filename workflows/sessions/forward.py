"""A port of a task's pod, joined to connections that a caller accepts.

The caller's control socket is the session: it lives as long as that, and announces a key for each
connection, which comes as a socket of its own, perhaps to another process and before its announcement. So
the keys stand in Redis, and a connection waits for its key.
"""

import asyncio
import json
import time
from collections import deque
from contextlib import suppress
from functools import partial
from typing import Final

import structlog

from cluster.errors import ClusterError, ClusterUnreachable
from cluster.interface import Channels
from cluster.pod_channels import DATA, FAILURE
from pools.clusters.connect import cluster_for
from pools.models import Backend
from scheduling.errors import Busy, Unavailable
from web.database.row_threads import run_in
from web.limits.redis_server import KEY_SECONDS
from web.server.sockets import FAILED, NORMAL, RESTARTS, CallerLeft, CallerSocket
from workflows.sessions import forward_state, refusals
from workflows.sessions.afterwards import go_on, write_later
from workflows.sessions.announced import PROCESS_KEYS
from workflows.sessions.audit import SessionRecord
from workflows.sessions.beginning import begin, loss_of
from workflows.sessions.ends import Over, first_end, told_to_end
from workflows.sessions.open_session import OpenSession, SessionLogin
from workflows.sessions.open_sessions import CHECK_SECONDS, PROCESS, threads
from workflows.sessions.tickets import Ticket, is_connection_key

MOST_ANNOUNCED: Final = 600
"""Keys of one forward that are announced within their minute; the next ones wait."""

INPUT_SECONDS = 60.0
"""Longest a port takes nothing of what the caller has sent."""

LAST_SECONDS = 3 * CHECK_SECONDS
"""Longest a forward's line waits for connections in other processes, which hear of its end at their look."""

log = structlog.get_logger(__name__)


async def refuse(sentence: str, socket: CallerSocket, *, user: int) -> None:
    """Say why there is no session, where our own command reads it."""
    if not refusals.are_full(user):
        with refusals.counted(user):
            await socket.close(FAILED, sentence)


async def run(socket: CallerSocket, *, ticket: Ticket, login: SessionLogin) -> None:
    """Hold a forward until its caller leaves, its task ends or its right is taken away."""
    session, record = OpenSession(ticket, login), SessionRecord(ticket)
    over = Over("The connection was lost, or web stopped.")
    try:
        over = await _hold(session, record, socket)
        await socket.close(over.code, over.sentence)
    finally:
        go_on(_complete(session, record, why=over.sentence))


async def _hold(session: OpenSession, record: SessionRecord, socket: CallerSocket) -> Over:
    control = session.ticket.session
    try:
        await PROCESS.enter(session)
        if why := await run_in(threads, partial(begin, session, record)):
            return Over(why)
        await run_in(threads, partial(forward_state.begin, control))
        await first_end(_announcements(session, socket), told_to_end(session))
    except CallerLeft:
        return Over("The caller left.")
    except Over as over:
        return over
    except (Busy, Unavailable) as error:  # too many sessions, or Redis is away: both pass
        return Over(error.message, code=RESTARTS)
    finally:
        PROCESS.leave(session)
        session.end("The caller left.")
        for connection in PROCESS.connections(control):
            connection.end("The forward has ended.")
        write_later(partial(forward_state.close, control))


async def _complete(session: OpenSession, record: SessionRecord, *, why: str) -> None:
    try:
        await _wait_for_connections(session.ticket.session)
    finally:
        write_later(partial(_end, session, record, why=why))


async def _wait_for_connections(control: str) -> None:
    """Wait until those of other processes have ended, too, and told what they carried."""
    with suppress(Unavailable):
        for _ in range(int(LAST_SECONDS)):
            if not (await run_in(threads, partial(forward_state.totals, control)))[2]:
                return
            await asyncio.sleep(1)


async def _announcements(session: OpenSession, socket: CallerSocket) -> None:
    """Let each key that the caller announces stand for a connection."""
    connection = session.ticket.connection()
    times: deque[float] = deque(maxlen=MOST_ANNOUNCED)
    while True:
        key = _announced_key(await socket.receive())
        if len(times) == MOST_ANNOUNCED:
            await asyncio.sleep(times[0] + KEY_SECONDS - time.monotonic())
        times.append(time.monotonic())
        await run_in(threads, partial(connection.announce, key))


def _announced_key(message: bytes) -> str:
    try:
        key = str(json.loads(message)["key"])
    except (ValueError, TypeError, KeyError, RecursionError):
        key = ""
    if not is_connection_key(key):
        raise Over("A connection is announced as JSON with its key: PORTFORWARD- and 32 digits.", code=FAILED)
    return key


def _end(session: OpenSession, record: SessionRecord, *, why: str) -> None:
    """Complete the forward's line. In a thread."""
    received, sent = session.received, session.sent
    try:
        received, sent, _ = forward_state.totals(session.ticket.session)
    except Unavailable as error:
        log.warning("forward_bytes_unread", error=error.message)
    record.end(why=why, received=received, sent=sent)


async def run_connection(
    socket: CallerSocket, *, key: str, user: int, workflow: str, login: SessionLogin
) -> None:
    """Wait for the key's announcement, then carry one connection to the port and back."""
    session, is_of_forward = None, False
    over = Over("The caller left.")
    try:
        ticket = await PROCESS_KEYS.ticket(socket, key=key, user=user, workflow=workflow)
        await PROCESS.enter(entering := OpenSession(ticket, login))
        session = entering  # from here on it is counted
        is_open = await run_in(threads, partial(forward_state.enter, ticket.session))
        is_of_forward = True
        await _joined(session, socket, is_open=is_open)
    except CallerLeft:
        pass
    except Over as ending:
        over = ending
    except (Busy, Unavailable) as error:
        over = Over(error.message, code=RESTARTS)
    except ClusterError as error:
        passes = isinstance(error, ClusterUnreachable)
        over = Over(f"The connection was cut off: {error.message}", code=RESTARTS if passes else FAILED)
    finally:
        if session is not None:
            PROCESS.leave(session)
            write_later(partial(_note_end, session, over.sentence, is_of_forward=is_of_forward))
    await socket.close(over.code, over.sentence if over.code != NORMAL else "")


async def _joined(session: OpenSession, socket: CallerSocket, *, is_open: bool) -> None:
    target = session.ticket.target
    if not is_open:
        raise Over("The forward has ended.", code=FAILED)
    if why := await run_in(threads, partial(loss_of, session)):
        raise Over(why, code=FAILED)
    backend = await run_in(threads, lambda: Backend.objects.get(pk=target.backend))
    async with cluster_for(backend).open_forward(
        target.pod, namespace=target.namespace, uid=target.uid, port=session.ticket.port
    ) as channels:
        await first_end(
            _carry_in(session, channels, socket),
            _carry_out(session, channels, socket),
            told_to_end(session),
        )


async def _carry_in(session: OpenSession, channels: Channels, socket: CallerSocket) -> None:
    while message := await socket.receive():
        try:
            async with asyncio.timeout(INPUT_SECONDS):
                await channels.send(DATA, message)
        except TimeoutError as error:
            raise Over(f"The port took nothing for {INPUT_SECONDS:g} seconds.", code=FAILED) from error
        session.count(received=len(message))
    raise CallerLeft


async def _carry_out(session: OpenSession, channels: Channels, socket: CallerSocket) -> None:
    while (packet := await channels.receive()) is not None:
        channel, data = packet
        if channel == FAILURE and data:
            text = " ".join(data.decode(errors="replace").split())
            raise Over(f"Port {session.ticket.port} cannot be reached: {text}", code=FAILED)
        if channel == DATA and data:
            await socket.send(data)
            session.count(sent=len(data))
    raise Over("The task closed the connection.")


def _note_end(session: OpenSession, why: str, *, is_of_forward: bool) -> None:
    """Log the end of a connection, and tell its forward what it carried. In a thread."""
    ticket = session.ticket
    log.info(
        "connection_ended",
        forward=ticket.session,
        user=ticket.username,
        workflow=ticket.target.workflow_name,
        port=ticket.port,
        why=why,
        bytes_received=session.received,
        bytes_sent=session.sent,
    )
    if not is_of_forward:
        return
    try:
        forward_state.leave(session)
    except Unavailable as error:
        log.warning("forward_bytes_unwritten", error=error.message)
