"""Exec as OSMO's client does it, byte for byte, on a terminal of its own (shared/reference/osmo-exec.md, D).

Written from what the client was observed to do: the size of its terminal first, then nothing until the first
message has come; then a raw terminal, bytes of up to 4 KiB, and resizes.
"""

import fcntl
import json
import os
import pty
import socket as sockets
import struct
import termios
import threading
import urllib.request
from contextlib import ExitStack
from dataclasses import dataclass, field

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

VERSION = "6.4.0"
SECONDS = 60


@dataclass
class OsmoExec:
    """One session; ``output`` is all that came, ``close`` the code and reason at its end."""

    stack: ExitStack
    socket: object
    terminal: int
    screen: int
    output: bytes = b""
    first: bytes | None = None
    close: tuple[int, str] | None = None
    changed: threading.Condition = field(default_factory=threading.Condition)

    def type(self, text):
        """What a person types: read from the terminal, as the client reads its stdin."""
        os.write(self.screen, text)
        self.socket.send(os.read(self.terminal, 4096))

    def send(self, data):
        self.socket.send(data)

    def resize(self, rows, columns):
        self.socket.send(b"\0RESIZE:" + json.dumps({"Rows": rows, "Cols": columns}).encode())

    def read(self):
        """The client's loop of output, in a thread."""
        try:
            for message in self.socket:
                assert isinstance(message, bytes), "the client fails at text"
                with self.changed:
                    if self.first is None:
                        self.first = message
                    self.output += message
                    self.changed.notify_all()
        except ConnectionClosed:
            pass
        with self.changed:
            self.close = (self.socket.protocol.close_code, self.socket.protocol.close_reason or "")
            self.changed.notify_all()

    def wait_for(self, text):
        """Wait until the output has a text."""
        with self.changed:
            assert self.changed.wait_for(lambda: text in self.output or self.close, SECONDS), self.output
            assert text in self.output, (self.output, self.close)

    def wait_closed(self):
        with self.changed:
            assert self.changed.wait_for(lambda: self.close is not None, SECONDS), self.output
        return self.close

    def hang_up(self):
        """As the kernel does it for a client that is killed."""
        self.socket.socket.shutdown(sockets.SHUT_RDWR)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stack.close()
        os.close(self.terminal)
        os.close(self.screen)


def headers_of(authorization):
    return {**authorization, "x-osmo-client-version": VERSION, "User-Agent": f"osmo-cli/{VERSION}"}


def ask(address, path, authorization):
    """The client's POST: no body."""
    headers = headers_of(authorization) | {"Content-Type": "application/json"}
    request = urllib.request.Request(address + path, method="POST", headers=headers)
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        assert answer.status == 200
        return json.loads(answer.read())


def open_session(answer, workflow, authorization, *, rows=24, columns=80, size=None, kind="exec"):
    """Open the socket of an answer, and send the size of a terminal."""
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    stack = ExitStack()
    opening = connect(
        f"{answer['router_address']}/api/router/{kind}/{workflow}/client/{answer['key']}",
        additional_headers={**authorization, "x-osmo-client-version": VERSION, "Cookie": answer["cookie"]},
        user_agent_header=f"osmo-cli/{VERSION}",
        ping_interval=20,
        ping_timeout=20,
        max_size=2**20,
        proxy=None,
    )
    socket = stack.enter_context(opening)
    session = OsmoExec(stack, socket, terminal, screen)
    height, width, *_ = struct.unpack("HHHH", fcntl.ioctl(terminal, termios.TIOCGWINSZ, bytes(8)))
    socket.send(json.dumps({"Rows": height, "Cols": width}).encode() if size is None else size)
    threading.Thread(target=session.read, daemon=True).start()
    return session
