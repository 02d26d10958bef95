"""``osmo-topology port-forward``: a local port that is a task's, through web, a real API server and kwok."""

import errno
import queue
import re
import signal
import socket
import threading
from contextlib import nullcontext
from unittest.mock import MagicMock

import pytest
from websockets.exceptions import ConnectionClosedError
from websockets.frames import Close

from localcluster.controlplane import ECHO_PORT
from osmo_topology_cli import forward
from osmo_topology_cli.forward import Ports, _Forward
from osmo_topology_client.errors import Failure
from tests.e2e.conftest import workflow


@pytest.fixture
def running(world):
    pool = world.make_pool(racks=1, allow_port_forward=True)
    name = world.submit(pool, workflow(("g", ["a"])))
    world.wait_group(name, "g", "RUNNING")
    return name


@pytest.fixture
def forwarded(command, running):
    """The command that forwards the echoing port and one that nothing listens at, with their local ports."""
    process = command.start("port-forward", running, "a", f"0:{ECHO_PORT}", "0:81")
    lines = [process.stdout.readline() for _ in range(2)]
    yield process, [int(re.search(r"127\.0\.0\.1:(\d+) to port", line)[1]) for line in lines]
    if process.poll() is None:
        process.kill()
    process.communicate()


def echoed(port, text):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as local:
        local.sendall(text)
        back = b""
        while len(back) < len(text):
            data = local.recv(65536)
            assert data, back
            back += data
        return back


def test_programs_reach_the_task_until_it_ends_which_is_told(forwarded, world, running):
    process, (port, _) = forwarded
    big = bytes(range(256)) * 2000
    with socket.create_connection(("127.0.0.1", port), timeout=60) as other:
        assert echoed(port, big) == big
        other.sendall(b"more")
        assert other.recv(4) == b"more"
    world.service.cancel(running, force=True)
    out, err = process.communicate(timeout=100)
    assert (process.returncode, "not running" in err) == (1, True), (out, err)


def test_a_port_that_nothing_listens_at_closes_the_connection_and_says_why(forwarded):
    process, (_, port) = forwarded
    with socket.create_connection(("127.0.0.1", port), timeout=60) as local:
        assert local.recv(1) == b""
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert "Port 81 cannot be reached" in err
    assert process.returncode == 130


@pytest.mark.parametrize("port", ["x", "80:", "1:2:3", "70000", "1:0", "-1"])
def test_what_is_no_port_is_refused_before_anything_is_sent(bare, port):
    ended = bare("port-forward", "w-1", "a", "--", port)
    assert ended.code == 2
    assert "port" in ended.err


def test_a_local_port_that_is_taken_is_told(command, running):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        ended = command("port-forward", running, "a", f"{number}:80")
    assert (ended.code, f"Port {number} of this machine" in ended.err) == (2, True)


@pytest.fixture
def broken():
    """A forward whose listener and whose service fail at once."""

    class Listener:
        def accept(self):
            raise OSError(errno.EMFILE, "Too many open files")

    return _Forward(None, "w-1", "a", Ports(0, 80), Listener(), queue.Queue(), print, threading.Lock())


def test_a_fault_of_whatever_kind_in_a_forward_ends_the_command(broken):
    broken.hold({"router_address": "an answer without its key"})
    assert isinstance(broken.ends.get_nowait(), KeyError)


def test_a_port_that_accepts_no_more_connections_ends_the_command_in_words(broken):
    broken.accept()
    failure = broken.ends.get_nowait()
    assert isinstance(failure, Failure)
    assert failure.message == "Connections to port 80 of the task cannot be accepted: Too many open files."


@pytest.mark.parametrize(
    ("code", "reason", "words"),
    [
        (1011, "Why.", "Why."),
        (1012, "It was cut off: the cluster was lost", "It was cut off: the cluster was lost"),
        (1012, "service restart", "A connection to port 80 was cut off (service restart)."),
    ],
)
def test_why_a_connection_ended_is_said_before_the_program_sees_its_end(
    broken, monkeypatch, code, reason, words
):
    class Ended:
        send = close = MagicMock()

        def __iter__(self):
            raise ConnectionClosedError(Close(code, reason), None)

    said, (local, program) = [], socket.socketpair()
    program.setblocking(False)

    def note(words):
        with pytest.raises(BlockingIOError):
            program.recv(1)
        said.append(words)

    monkeypatch.setattr(forward, "opened", lambda *_: nullcontext(Ended()))
    broken.note, broken.control = note, (Ended(), {"cookie": ""})
    broken.is_open.set()
    with program:
        broken._carry(local)
        assert (said, program.recv(1)) == ([words], b"")
