"""``osmo-topology exec -it`` on a terminal: its size, and how it is left whatever ends the command."""

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios

import pytest

from localcluster.directories import CHECKOUT
from tests.builders.pod_server import RESIZE
from tests.builders.waiting import until

SECONDS = 60


class Terminal:
    """A pty; the command runs on its other side."""

    def __init__(self):
        self.master, self.slave = pty.openpty()
        self.resize(columns=101, rows=33)

    def resize(self, *, columns, rows):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def is_raw(self):
        return not termios.tcgetattr(self.slave)[3] & termios.ECHO


@pytest.fixture
def terminal():
    terminal = Terminal()
    yield terminal
    os.close(terminal.master)
    os.close(terminal.slave)


@pytest.fixture
def command(own, ann, group, tmp_path, terminal):
    """A command of ann's on the terminal; COLUMNS is what a shell exported when it began."""
    login = {
        "OSMO_URL": f"http://127.0.0.1:{own.port}",
        "OSMO_TOKEN": ann["Authorization"].removeprefix("Bearer "),
    }
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "COLUMNS": "7", "LINES": "7"}
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "osmo_topology_cli",
            "exec",
            "-it",
            group.workflow.name,
            "task-0",
            "--",
            "echo",
        ],
        cwd=CHECKOUT,
        env=environment | login,
        stdin=terminal.slave,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    until(terminal.is_raw, seconds=SECONDS)
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_ended_leaves_the_terminal_as_it_was(command, terminal, number):
    command.send_signal(number)
    assert command.wait(SECONDS) == 128 + number
    assert not terminal.is_raw()


def test_the_tasks_terminal_has_the_size_of_this_and_follows_it(command, terminal, pods):
    def sizes():
        inputs = [message for session in pods.sessions for message in session.input]
        return [json.loads(data) for channel, data in inputs if channel == RESIZE]

    until(lambda: {"Width": 101, "Height": 33} in sizes())
    terminal.resize(columns=132, rows=40)
    command.send_signal(signal.SIGWINCH)  # as a terminal sends it to its foreground
    until(lambda: sizes()[-1] == {"Width": 132, "Height": 40})
