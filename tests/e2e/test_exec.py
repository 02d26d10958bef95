"""A shell in a running task: OSMO's client's bytes, through web, a real API server and kwok.

kwok runs the command on this machine, so what a command prints shows the way there and back.
"""

from urllib.parse import quote

import pytest

from tests.builders.osmo_exec import ask, open_session
from tests.e2e.conftest import workflow


@pytest.fixture
def running(world):
    """The name of a workflow with two running tasks, in a pool that allows exec."""
    pool = world.make_pool(allow_exec=True)
    name = world.submit(pool, workflow(("g", ["a", "b"])))
    world.wait_group(name, "g", "RUNNING")
    world.wait(
        lambda: [task["status"] for task in world.groups(name)["g"]["tasks"]],
        lambda statuses: statuses == ["RUNNING", "RUNNING"],
    )
    return name


def login(world):
    return {"Authorization": world.service.headers["Authorization"]}


def key(world, name, command="/bin/sh", target="task/a"):
    path = f"/api/workflow/{name}/exec/{target}?entry_command={quote(command)}"
    return ask(world.service._url, path, login(world))


def exec_in(world, name, command="/bin/sh", **more):
    return open_session(key(world, name, command), name, login(world), **more)


def test_a_shell_of_osmos_client_echoes_what_is_typed(world, running):
    with exec_in(world, running, rows=33, columns=101) as shell:
        shell.wait_for(b"")
        shell.type(b"stty size; echo six=$((2*3))\n")
        shell.wait_for(b"33 101")
        shell.wait_for(b"six=6")
        shell.type(b"exit\n")
        assert shell.wait_closed() == (1000, "")
