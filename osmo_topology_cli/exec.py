"""A command in a running task, joined to this terminal or to whatever stdin and stdout are.

With a terminal it is raw for the time of the session, and its changes of size go along. Whatever ends the
session, the terminal is as it was before.
"""

import os
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from osmo_topology_client.errors import Failure, Refused, ServiceUnreachable
from osmo_topology_client.task_sessions import STDERR, ExecSession, exec_session

if TYPE_CHECKING:
    from osmo_topology_client.client import Client

PIECE = 4096


def run(
    service: "Client", workflow: str, task: str, command: Sequence[str], *, stdin: bool, terminal: bool
) -> int:
    """Run the command to its end; returns its exit code. Raises Failure."""
    terminal = terminal and stdin and sys.stdin.isatty()
    with (
        exec_session(service, workflow, task, command, tty=terminal, stdin=stdin) as session,
        _raw(session) if terminal else nullcontext(),
    ):
        if stdin:
            threading.Thread(target=_type, args=[session], daemon=True).start()
        for channel, data in session.output():
            _print(channel, data)
    ending = session.ending
    if ending is None:
        raise ServiceUnreachable("The session broke off.")
    if ending.code is None:
        raise Refused(status=400, body={"message": ending.message, "error_code": "USER"})
    return ending.code


def _print(channel: int, data: bytes) -> None:
    stream = sys.stderr.buffer if channel == STDERR else sys.stdout.buffer
    stream.write(data)
    stream.flush()


def _type(session: ExecSession) -> None:
    """Send what is typed, or what is in a file or pipe, to its end."""
    with suppress(Failure):
        while data := os.read(sys.stdin.fileno(), PIECE):
            session.write(data)
        session.end_input()


@contextmanager
def _raw(session: ExecSession) -> Iterator[None]:
    """The terminal in raw mode; a thread sends its size, now and after each change."""
    file, changed = sys.stdin.fileno(), threading.Event()
    before = termios.tcgetattr(file)
    changed.set()
    threading.Thread(target=_send_sizes, args=[session, file, changed], daemon=True).start()
    handlers = {signal.SIGWINCH: signal.signal(signal.SIGWINCH, lambda *_: changed.set())}
    try:
        for number in (signal.SIGTERM, signal.SIGHUP):  # which else leave the terminal raw
            handlers[number] = signal.signal(number, _leave)
        tty.setraw(file)
        yield
    finally:
        with suppress(termios.error):  # a terminal that hung up
            termios.tcsetattr(file, termios.TCSADRAIN, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _leave(number: int, _: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _send_sizes(session: ExecSession, file: int, changed: threading.Event) -> None:
    with suppress(Failure, OSError):
        while changed.wait():
            changed.clear()
            columns, rows = os.get_terminal_size(file)
            session.resize(columns=columns, rows=rows)
