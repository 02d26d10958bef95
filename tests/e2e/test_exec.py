"""A shell in a running task: OSMO's client's bytes, through web, a real API server and kwok.

kwok runs the command on this machine, so what a command prints shows the way there and back. It drops what a
command with a terminal prints just before its end, so such commands stay for a moment.
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
        shell.wait_for(b"\0")
        shell.type(b'until [ "$(stty size)" = "33 101" ]; do sleep 0.1; done; echo six=$((2*3))\n')
        shell.wait_for(b"six=6")
        shell.type(b"exit\n")
        assert shell.wait_closed() == (1000, "")


def test_a_command_that_reads_before_it_prints_is_typed_to(world, running):
    with exec_in(world, running, "cat") as session:
        session.wait_for(b"\0")
        session.type(b"echoed\n")
        session.wait_for(b"echoed\r\nechoed\r\n")


def test_a_change_of_size_reaches_the_task(world, running):
    with exec_in(world, running) as shell:
        shell.wait_for(b"\0")
        shell.resize(40, 132)
        shell.type(b'until [ "$(stty size)" = "40 132" ]; do sleep 0.1; done; echo six=$((2*3))\n')
        shell.wait_for(b"six=6")


def test_binary_output_comes_as_it_is(world, running):
    with exec_in(world, running, r"sh -c 'stty -echo; printf \\377\\000\\303; read end'") as session:
        session.wait_for(b"\xc3")
        session.send(b"\n")
        assert session.wait_closed() == (1000, "")
        assert session.output == b"\0\xff\0\xc3"


def test_a_command_that_fails_is_told_in_words(world, running):
    with exec_in(world, running, "sh -c 'exit 7'") as session:
        assert session.wait_closed() == (1000, "")
        assert b"exit" in session.output


def test_a_command_that_is_not_there_is_told_in_words(world, running):
    with exec_in(world, running, "/no/such/program") as session:
        session.wait_closed()
        assert b"no such file" in session.output


def test_each_task_of_a_group_answers_in_whole_lines(world, running):
    answers = key(world, running, "sh -c 'printf on; sleep 0.2; echo e; printf two; sleep 3'", "group/g")
    assert sorted(answers) == ["a", "b"]
    for answer in answers.values():
        with open_session(answer, running, login(world)) as session:
            assert session.wait_closed() == (1000, "")
            assert session.output == b"one\ntwo\n"


def test_a_pod_that_is_killed_in_the_middle_ends_the_session(world, running):
    with exec_in(world, running) as shell:
        shell.wait_for(b"\0")
        world.kill_pod(running, "a")
        assert shell.wait_closed()[0] in {1000, 1011}
        assert b"is not running any more" in shell.output or b"cut off" in shell.output


def test_a_task_that_is_cancelled_in_the_middle_ends_the_session(world, running):
    with exec_in(world, running) as shell:
        shell.wait_for(b"\0")
        world.service.cancel(running, force=True)
        assert shell.wait_closed()[0] in {1000, 1011}
        assert b"is not running any more" in shell.output or b"cut off" in shell.output
    world.wait_released(running)
