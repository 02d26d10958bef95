"""OSMO's own command line, from a checkout of it that a setting names; nothing of it is in this repository.

To run it, set OSMO_CLIENT_CHECKOUT to a checkout of github.com/NVIDIA/OSMO whose ``.venv`` has what its
``src/requirements.txt`` names. Its exec needs a terminal, so every command gets a pty.
"""

import fcntl
import os
import pty
import select
import socket
import struct
import subprocess
import termios
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from localcluster.ports import LOOPBACK

VARIABLE = "OSMO_CLIENT_CHECKOUT"
SECONDS = 60


@dataclass
class Screen:
    """A command of the client on its terminal; ``output`` is all that it has shown."""

    process: subprocess.Popen
    master: int
    output: bytes = b""
    place: int = 0
    """Up to where ``wait_for`` has read."""

    def type(self, text):
        os.write(self.master, text)

    def resize(self, rows, columns):
        _set_size(self.master, rows, columns)

    def wait_for(self, text, *, seconds=SECONDS):
        """Wait until the screen has shown a text behind the one that was waited for before."""
        deadline = time.monotonic() + seconds
        while (start := self.output.find(text, self.place)) < 0:
            assert self._read(deadline), self.output
        self.place = start + len(text)

    def wait(self, *, seconds=SECONDS):
        """The exit code."""
        deadline = time.monotonic() + seconds
        while self._read(deadline):
            pass
        return self.process.wait(max(deadline - time.monotonic(), 1))

    def is_raw(self):
        return not termios.tcgetattr(self.master)[3] & termios.ECHO

    def _read(self, deadline):
        if not select.select([self.master], [], [], max(deadline - time.monotonic(), 0))[0]:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:  # the other side is closed
            return False
        self.output += data
        return bool(data)


def _set_size(terminal, rows, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


@dataclass
class OsmoClient:
    """The client, logged in at a service as its users log in, with a home of its own."""

    checkout: Path
    home: Path

    def login(self, address, authorization):
        token = authorization["Authorization"].removeprefix("Bearer ")
        with self.start("login", address, "--method", "token", "--token", token) as screen:
            assert screen.wait() == 0, screen.output

    @contextmanager
    def start(self, *words, rows=24, columns=80):
        master, terminal = pty.openpty()
        _set_size(master, rows, columns)
        home = {"OSMO_CONFIG_FILE_DIR": str(self.home), "OSMO_LOG_FILE_DIR": str(self.home)}
        process = subprocess.Popen(
            [self.checkout / ".venv/bin/python", "-m", "src.cli.cli", *words],
            cwd=self.checkout,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), "PYTHONUNBUFFERED": "1"} | home,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
            preexec_fn=partial(fcntl.ioctl, 0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 -- for changes of its size
        )
        os.close(terminal)
        try:
            yield Screen(process, master)
        finally:
            process.kill()
            process.wait()
            os.close(master)


def back_through(port, message):
    """What comes back through a local port, up to as much as was sent."""
    with socket.create_connection((LOOPBACK, port), timeout=60) as local:
        local.sendall(message)
        back = b""
        while len(back) < len(message) and (data := local.recv(65536)):
            back += data
        return back


@pytest.fixture
def osmo_client(tmp_path):
    """The client of the checkout that the setting names."""
    if not (name := os.environ.get(VARIABLE)):
        pytest.skip(f"{VARIABLE} names no checkout of OSMO")
    checkout = Path(name).resolve()
    if not (checkout / ".venv/bin/python").exists():
        pytest.fail(f"{VARIABLE} names {checkout}, which has no .venv/bin/python")
    home = tmp_path / "osmo"
    home.mkdir()
    return OsmoClient(checkout, home)
