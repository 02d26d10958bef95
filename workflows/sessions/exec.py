"""A command in a task's pod, joined to a caller's socket.

Three things run at once: input, output, and the wait for a reason to end. The first that ends ends
the others. An end that takes nothing for a while ends the session: the caller's by the server, the task's
here.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

from cluster.errors import ClusterError, ClusterUnreachable
from cluster.interface import Channels, ClusterApi
from cluster.pod_channels import END, STDIN
from scheduling.errors import Busy, Unavailable
from web.database.row_threads import run_in
from web.server.sockets import FAILED, NORMAL, RESTARTS, CallerLeft, CallerSocket
from workflows.sessions import refusals
from workflows.sessions.afterwards import write_later
from workflows.sessions.audit import SessionRecord
from workflows.sessions.beginning import begin
from workflows.sessions.callers import (
    CHANNELS,
    END_OF_INPUT,
    BadSize,
    ChannelCaller,
    ExecCaller,
    OsmoCaller,
    Packet,
    read_status,
)
from workflows.sessions.ends import Over, first_end, told_to_end
from workflows.sessions.open_session import OpenSession, SessionLogin
from workflows.sessions.open_sessions import PROCESS, threads
from workflows.sessions.tickets import Ticket

SIZE_SECONDS = 30.0
INPUT_SECONDS = 30.0
"""Longest the task's side takes no input that the caller has sent."""


async def refuse(sentence: str, socket: CallerSocket, *, user: int, code: int = NORMAL) -> None:
    """Say why there is no session, since a client shows nothing of a refused handshake.

    OSMO's client is heard first: one whose first message meets a closed socket shows nothing either.
    """
    if refusals.are_full(user):
        return
    caller = _caller_of(socket, lines=False)
    with refusals.counted(user):
        with suppress(Over):
            await _first_packets(caller, socket)
        await _say_last(caller, Over(sentence, code=code), socket)


async def run(socket: CallerSocket, *, ticket: Ticket, login: SessionLogin, cluster: ClusterApi) -> None:
    """Run the ticket's command until either side ends it."""
    caller = _caller_of(socket, lines=ticket.lines)
    session, record = OpenSession(ticket, login), SessionRecord(ticket)
    over = Over("The connection was lost, or web stopped.", code=FAILED)
    try:
        await PROCESS.enter(session)
    except Busy as error:
        await refuse(error.message, socket, user=ticket.user)
        return
    except Unavailable as error:
        await refuse(error.message, socket, user=ticket.user, code=RESTARTS)
        return
    try:
        if why := await run_in(threads, partial(begin, session, record)):
            over = Over(why)
            await refuse(why, socket, user=ticket.user)
            return
        over = await _joined(caller, session, cluster, socket)
        await _say_last(caller, over, socket)
    except CallerLeft:
        over = Over("The caller left.")
    except Unavailable as error:  # it cannot be recorded
        over = Over(error.message)
        await refuse(error.message, socket, user=ticket.user, code=RESTARTS)
    finally:
        PROCESS.leave(session)
        why = over.sentence or str((over.status or {}).get("message") or "It ended well.")
        write_later(partial(record.end, why=why, received=session.received, sent=session.sent))


def _caller_of(socket: CallerSocket, *, lines: bool) -> ExecCaller:
    return ChannelCaller() if socket.subprotocol == CHANNELS else OsmoCaller(lines=lines)


async def _joined(
    caller: ExecCaller, session: OpenSession, cluster: ClusterApi, socket: CallerSocket
) -> Over:
    """Carry bytes both ways until something ends. Raises CallerLeft."""
    ticket, target = session.ticket, session.ticket.target
    try:
        first = await _first_packets(caller, socket)
        async with cluster.open_exec(
            target.pod,
            namespace=target.namespace,
            uid=target.uid,
            container=target.container,
            command=ticket.command,
            stdin=ticket.stdin or ticket.tty,  # a terminal without input is none
            tty=ticket.tty,
        ) as channels:
            return await first_end(
                _carry_in(caller, session, channels, socket, first),
                _carry_out(caller, session, channels, socket),
                told_to_end(session),
            )
    except Over as over:
        return over
    except ClusterError as error:
        return Over(f"The session was cut off: {error.message}", code=FAILED)


async def _first_packets(caller: ExecCaller, socket: CallerSocket) -> list[Packet]:
    if not caller.needs_size:
        return []
    try:
        async with asyncio.timeout(SIZE_SECONDS):
            return list(caller.packets(await socket.receive()))
    except (TimeoutError, BadSize) as error:
        raise Over("The first message must be the terminal's size, as JSON with Rows and Cols.") from error


async def _carry_in(
    caller: ExecCaller,
    session: OpenSession,
    channels: Channels,
    socket: CallerSocket,
    first: Iterable[Packet],
) -> None:
    """Send the packets of the caller; where the task's side takes no more, its output says why."""
    packets = first
    with suppress(ClusterUnreachable):
        while True:
            for packet in packets:
                try:
                    async with asyncio.timeout(INPUT_SECONDS):
                        await (channels.end_input() if packet == END_OF_INPUT else channels.send(*packet))
                except TimeoutError as error:
                    raise Over(f"The task took no input for {INPUT_SECONDS:g} seconds.") from error
                session.count(received=len(packet[1]) if packet[0] == STDIN else 0)
            packets = caller.packets(await socket.receive())


async def _carry_out(
    caller: ExecCaller, session: OpenSession, channels: Channels, socket: CallerSocket
) -> None:
    began = False
    while (packet := await channels.receive()) is not None:
        channel, data = packet
        if channel == END:
            raise Over(status=read_status(data))
        if not began and (message := caller.began()):
            await socket.send(message)
        began = True
        for message in caller.messages(channel, data):
            await socket.send(message)
            session.count(sent=len(message))
    raise Over("The session was cut off by the cluster.", code=FAILED)


async def _say_last(caller: ExecCaller, over: Over, socket: CallerSocket) -> None:
    with suppress(CallerLeft):
        for message in caller.last_messages(over.sentence, over.status):
            await socket.send(message)
        await socket.close(over.code, over.sentence if over.code != NORMAL else "")
