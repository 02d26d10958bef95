"""Ports of a running task: OSMO's client's bytes, through web, a real API server and kwok, which echoes."""

import pytest
from websockets.exceptions import ConnectionClosed

from localcluster.controlplane import ECHO_PORT
from tests.builders.osmo_forward import announce, ask_ports, exchanged, minted, socket
from tests.e2e.conftest import workflow


@pytest.fixture
def running(world):
    """The name of a workflow with a running task, in a pool that allows port-forward."""
    pool = world.make_pool(racks=1, allow_port_forward=True)
    name = world.submit(pool, workflow(("g", ["a"])))
    world.wait_group(name, "g", "RUNNING")
    return name


@pytest.fixture
def opened(world, running):
    """A control socket of the port, and a function that opens a connection through it."""
    who = {"Authorization": world.service.headers["Authorization"]}

    def control(port=ECHO_PORT):
        answer = ask_ports(world.service._url, running, "a", [port], who)[0]
        return answer, socket(answer, running, who)

    def connection(answer, held):
        key = minted()
        announce(held, key)
        return socket(answer, running, who, key=key)

    return control, connection


def test_connections_carry_bytes_to_a_port_of_the_task_and_back(opened):
    control, connection = opened
    answer, held = control()
    with held, connection(answer, held) as first, connection(answer, held) as second:
        assert exchanged(first, b"\x00\xffone") == b"\x00\xffone"
        big = bytes(range(256)) * 16
        assert exchanged(second, big) == big
        assert exchanged(first, b"again") == b"again"


def test_a_pod_that_is_killed_in_the_middle_ends_the_forward_and_its_connections(opened, world, running):
    control, connection = opened
    answer, held = control()
    with held, connection(answer, held) as data:
        exchanged(data, b"x")
        world.kill_pod(running, "a")
        with pytest.raises(ConnectionClosed) as end:
            held.recv(timeout=60)
        assert (end.value.rcvd.code, "not running any more" in end.value.rcvd.reason) == (1000, True)
        with pytest.raises(ConnectionClosed):
            data.recv(timeout=30)


def test_a_port_that_nothing_listens_at_is_told_in_words(opened):
    control, connection = opened
    answer, held = control(81)
    with held, connection(answer, held) as data:
        with pytest.raises(ConnectionClosed) as end:
            data.recv(timeout=30)
        assert end.value.rcvd.code == 1011
        assert end.value.rcvd.reason.startswith("Port 81 cannot be reached: ")
