"""``osmo-topology port-forward`` and ``cp`` where web restarts, or a task's tar is missing, fails or lies."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from localcluster.directories import CHECKOUT
from pools.models import Pool
from tests.builders.waiting import until

SECONDS = 60


@pytest.fixture
def start(ann, tmp_path):
    """Start a command of ann's against a server."""

    def started(server, *words):
        login = {
            "OSMO_URL": f"http://127.0.0.1:{server.port}",
            "OSMO_TOKEN": ann["Authorization"].removeprefix("Bearer "),
        }
        return subprocess.Popen(
            [sys.executable, "-m", "osmo_topology_cli", *words],
            cwd=CHECKOUT,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONWARNINGS": "error"} | login,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return started


@pytest.fixture
def copied(start, own, group, tmp_path):
    """Copy a path from a task; returns the code, the errors and what files there are then."""

    def run(path):
        target = tmp_path / "target"
        target.mkdir()
        process = start(own, "cp", f"{group.workflow.name}/task-0:{path}", str(target))
        _, err = process.communicate(timeout=SECONDS)
        return process.returncode, err, list(target.iterdir())

    return run


def echoes(port):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as local:
            local.sendall(b"x")
            return local.recv(1) == b"x"
    except OSError:
        return False


def test_a_forward_is_opened_again_when_web_restarts(start, start_web, group):
    Pool.objects.update(allow_port_forward=True)
    server = start_web()
    process = start(server, "port-forward", group.workflow.name, "task-0", "0:80")
    try:
        port = int(re.search(r":(\d+) to port 80", process.stdout.readline())[1])
        assert echoes(port)
        children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGTERM)  # its parent starts another
        # The connection of before may still be closing, and then says that it was cut off.
        assert any("opening it again" in line for line in process.stderr)
        until(lambda: echoes(port), seconds=SECONDS)
        group.workflow.status = "COMPLETED"
        group.workflow.save()
        Pool.objects.update(allow_port_forward=False)
        _, err = process.communicate(timeout=SECONDS)
        assert (process.returncode, "does not allow this any more" in err) == (1, True)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("/no-tar", "has no tar"),
        ("/fails", "file changed as we read it"),
        ("/cut", "cut off"),
        ("/lies", "leads out of what was asked for"),
    ],
)
def test_a_copy_that_fails_says_why_and_leaves_nothing(copied, place, words):
    code, err, files = copied(f"{place}/out")
    assert (code > 0, words in err, files) == (True, True, []), err


def test_a_copy_of_no_path_is_refused(copied):
    assert copied("")[0] == 2
