"""``osmo-topology exec``: a command in a running task, through the whole service and kwok.

kwok passes on neither exit codes nor the end of input; ``tests/web/test_exec_command.py`` has these.
"""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios

import pytest

from localcluster.directories import CHECKOUT
from tests.e2e.conftest import workflow

SECONDS = 60


@pytest.fixture
def running(world):
    pool = world.make_pool(racks=1, allow_exec=True)
    name = world.submit(pool, workflow(("g", ["a"])))
    world.wait_group(name, "g", "RUNNING")
    return name


def test_output_and_errors_come_apart(command, running):
    ended = command("exec", running, "a", "--", "sh", "-c", "echo out; echo err >&2")
    assert (ended.code, ended.out, ended.err) == (0, "out\n", "err\n")


def test_what_is_piped_in_reaches_the_command(command, running):
    ended = command("exec", running, "a", "-i", "--", "head", "-n", "2", given="b\na\n")
    assert (ended.code, ended.out) == (0, "b\na\n")


def test_a_flood_of_output_comes_whole(command, running):
    ended = command("exec", running, "a", "--", "seq", "200000")
    assert ended.code == 0, ended.err
    assert ended.out.splitlines() == [str(number) for number in range(1, 200_001)]


def test_without_input_nothing_is_waited_for(command, running):
    ended = command("exec", running, "a", "--", "cat")
    assert (ended.code, ended.out) == (0, "")


def test_a_task_that_is_not_there_is_refused_in_words(command, running):
    ended = command("exec", running, "z", "--", "true")
    assert ended.code == 1
    assert f"Task z does not exist in workflow {running}!" in ended.err


def test_a_shell_has_this_terminal_and_leaves_it_as_it_was(command, running):
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 34, 0, 0))
    before = subprocess.check_output(["stty", "-a"], stdin=terminal)
    process = subprocess.Popen(
        [sys.executable, "-m", "osmo_topology_cli", "exec", running, "a", "-it", "--", "sh"],
        cwd=CHECKOUT,
        env=command.environment,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    read_to(screen, b" ")  # of the prompt
    os.write(screen, b'until [ "$(stty size)" = "12 34" ]; do sleep 0.1; done; echo size=$(stty size)\n')
    shown = read_to(screen, b"size=12 34")
    os.write(screen, b"exit\n")
    assert process.wait(SECONDS) == 0, shown
    assert subprocess.check_output(["stty", "-a"], stdin=terminal) == before


def read_to(screen, text):
    """What a terminal shows up to a text."""
    shown = b""
    while text not in shown:
        assert select.select([screen], [], [], SECONDS)[0], shown
        shown += os.read(screen, 65536)
    return shown
