"""OSMO's own client, unchanged, on web's event loop; skipped where no setting names a checkout of it."""

import os
import signal

import pytest

from localcluster.ports import free_ports
from pools.models import Pool
from tests.builders.osmo_client import back_through
from tests.builders.waiting import until
from tests.web.conftest import process_of


@pytest.fixture
def client(osmo_client):
    def logged_in(server, who):
        osmo_client.login(f"http://127.0.0.1:{server.port}", who)
        return osmo_client

    return logged_in


def exec_words(group, *more):
    return "workflow", "exec", group.workflow.name, "task-0", *more


def test_exec_types_into_the_task_and_tells_its_size(client, own, group, ann, pods):
    with client(own, ann).start(*exec_words(group, "--entry", "echo"), rows=33, columns=101) as screen:
        until(screen.is_raw)
        screen.type(b"abc\n")
        screen.wait_for(b"abc")
        screen.resize(50, 120)
        until(lambda: any(b"120" in data for channel, data in pods.sessions[0].input if channel == 4))
        screen.type(b"exit")
        assert screen.wait() == 0, screen.output
    assert pods.sessions[0].input[0] == (4, b'{"Width": 101, "Height": 33}')
    until(lambda: not pods.opened())


def test_a_refusal_is_its_clean_sentence(client, own, group, ann):
    with client(own, ann).start("workflow", "exec", group.workflow.name, "nobody") as screen:
        assert screen.wait() == 2
        assert f"Task nobody does not exist in workflow {group.workflow.name}!".encode() in screen.output
        assert b"Traceback" not in screen.output


def test_keep_alive_opens_another_session_when_web_restarts(client, start_web, group, ann, pods):
    server = start_web()
    words = exec_words(group, "--entry", "echo", "--keep-alive")
    with client(server, ann).start(*words) as screen:
        until(screen.is_raw)
        screen.type(b"first\n")
        screen.wait_for(b"first")
        os.kill(process_of(server), signal.SIGTERM)  # its parent starts another
        screen.wait_for(b"received 1012 (service restart)")
        screen.wait_for(b"Reconnecting to the exec session...")
        until(screen.is_raw, seconds=60)
        screen.type(b"second\n")
        screen.wait_for(b"second")
        screen.type(b"exit")
        assert screen.wait() == 0, screen.output
    assert len(pods.sessions) == 2
    until(lambda: not pods.opened())


def test_a_forward_is_opened_again_when_web_restarts(client, start_web, group, ann, pods):
    Pool.objects.update(allow_port_forward=True)
    server, port = start_web(), free_ports(1)[0]
    words = "workflow", "port-forward", group.workflow.name, "task-0", "--port", f"{port}:80"
    with client(server, ann).start(*words) as screen:
        screen.wait_for(b"Starting port forwarding")
        until(lambda: answers(port))
        os.kill(process_of(server), signal.SIGTERM)
        screen.wait_for(b"Reconnect to remote port 80")
        screen.wait_for(b"Starting port forwarding")
        until(lambda: answers(port))
    until(lambda: not pods.opened())


def answers(port):
    try:
        return back_through(port, b"x") == b"x"
    except OSError:
        return False
