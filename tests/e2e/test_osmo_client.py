"""OSMO's own client, unchanged, through web, a real API server and kwok; skipped without a checkout of it."""

import pytest

from localcluster.controlplane import ECHO_PORT
from localcluster.ports import free_ports
from tests.builders.osmo_client import back_through
from tests.builders.waiting import until
from tests.e2e.conftest import workflow


@pytest.fixture
def running(world):
    pool = world.make_pool(allow_exec=True, allow_port_forward=True)
    name = world.submit(pool, workflow(("g", ["a", "b"])))
    world.wait_group(name, "g", "RUNNING")
    world.wait(
        lambda: [task["status"] for task in world.groups(name)["g"]["tasks"]],
        lambda statuses: statuses == ["RUNNING", "RUNNING"],
    )
    return name


@pytest.fixture
def client(osmo_client, world):
    osmo_client.login(world.service._url, {"Authorization": world.service.headers["Authorization"]})
    return osmo_client


def test_a_shell_is_on_this_terminal_and_ends_well(client, running):
    with client.start("workflow", "exec", running, "a", "--entry", "/bin/sh", rows=33, columns=101) as screen:
        until(screen.is_raw)
        screen.type(b"sleep 0.5; stty size; echo six=$((2*3))\n")
        screen.wait_for(b"33 101")
        screen.wait_for(b"six=6")
        screen.resize(40, 132)
        screen.type(b"sleep 0.5; stty size\n")
        screen.wait_for(b"40 132")
        screen.type(b"sleep 0.5; exit\n")
        assert screen.wait() == 0, screen.output
        assert not screen.is_raw()


def test_a_group_answers_with_the_lines_of_each_task(client, running):
    entry = r"sh -c 'printf on; sleep 0.2; echo e; printf \\303; sleep 0.2; printf \\244; echo; sleep 0.5'"
    with client.start("workflow", "exec", running, "--group", "g", "--entry", entry) as screen:
        assert screen.wait() == 0, screen.output
    lines = screen.output.decode().splitlines()
    assert sorted(lines) == sorted(f"[{task}] {text}" for task in "ab" for text in ("one", "\u00e4"))


def test_several_ports_are_forwarded_each_to_its_own(client, running):
    first, second = free_ports(2)
    ports = f"{first}:{ECHO_PORT},{second}:81"
    with client.start("workflow", "port-forward", running, "a", "--port", ports) as screen:
        screen.wait_for(b"Starting port forwarding")
        screen.wait_for(b"Starting port forwarding")
        assert back_through(first, b"\0\xffone") == b"\0\xffone"
        big = bytes(range(256)) * 400
        assert back_through(first, big) == big
        assert back_through(second, b"x") == b""
