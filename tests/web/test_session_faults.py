"""Faults in the middle of sessions: each ends in a sentence, and afterwards nothing of it is left.

``OSMO_USER_SESSIONS=1`` shows what is counted: while one is left, no other session opens.
"""

import json
import os
import signal
from urllib.error import HTTPError

import pytest
from websockets.exceptions import ConnectionClosed

from pools.models import Pool
from tests.builders.osmo_forward import announce, ask_ports, exchanged, minted, socket
from tests.builders.pod_server import END, STDIN, STDOUT, PodServer
from tests.builders.waiting import until
from tests.web.conftest import process_of, running_group
from tests.web.session_callers import OWN, answer_of, channels, handshake, shell, thread_count
from web.limits.redis_server import shared_redis
from workflows.models import Event

ECHO = 80
V4 = "v4.channel.k8s.io"


@pytest.fixture
def nothing_left(strict, ann, pods):
    """Check that the cluster has no session, and that the process counts none and has no thread for one."""
    threads = thread_count(strict)

    def check(group):
        until(lambda: not pods.opened())
        with with_room(lambda: shell(strict, group, ann)) as session:
            session.wait_for(b"\0")
            assert thread_count(strict) - threads <= 8 + 5 + 8  # of requests, of sessions, of asyncio itself
            session.send(b"exit")
            session.wait_closed()

    return check


def with_room(opens):
    """What opens as soon as the session before counts no more: a thread says so behind its end.

    What no thread says lapses after 30 seconds only.
    """

    def opened():
        try:
            return opens()
        except HTTPError as refusal:
            if refusal.code != 429:
                raise
            return None

    return until(opened, seconds=25)


@pytest.fixture
def old_pods():
    """An API server before Kubernetes 1.30."""
    with PodServer(protocol=V4) as server:
        yield server


@pytest.mark.parametrize("status", [502, 504])
def test_a_kubelet_that_is_away_is_told(strict, group, ann, nothing_left, pods, status):  # noqa: PLR0917 -- fixtures
    pods.refusals["exec"] = status
    with shell(strict, group, ann) as session:
        assert session.wait_closed()[0] == 1011
        assert b"cut off: the pod's node did not answer the API server" in session.output
    pods.refusals.clear()
    nothing_left(group)


def test_a_kubelet_that_is_away_is_told_as_the_api_server_says_it_after_the_handshake(
    strict, group, ann, nothing_left
):
    with shell(strict, group, ann, "unreachable") as session:
        assert session.wait_closed() == (1000, "")
        assert session.output.endswith(
            b"error dialing backend: dial tcp 192.0.2.1:10250: no route to host\r\n"
        )
    nothing_left(group)


def test_a_right_that_the_service_lacks_in_the_cluster_is_named(strict, group, ann, pods, nothing_left):
    pods.refusals["exec"] = 403
    with shell(strict, group, ann) as session:
        assert session.wait_closed()[0] == 1011
        assert b"get and create on pods/exec" in session.output
    pods.refusals.clear()
    nothing_left(group)


def test_an_older_api_server_serves_terminals(own, old_pods, tmp_path, ann):
    group = running_group(old_pods, tmp_path)
    with shell(own, group, ann) as session:
        session.type(b"typed\n")
        session.wait_for(b"typed")
        session.send(b"exit")
        assert session.wait_closed() == (1000, "")


def test_an_older_api_server_that_cannot_pass_on_the_end_of_input_is_told(own, old_pods, tmp_path, ann):
    group = running_group(old_pods, tmp_path)
    with channels(own, group, ann, tty="False") as session:
        session.send(bytes((STDIN,)) + b"text")
        session.send(bytes((255, STDIN)))
        status = last_status(session)
        assert "cannot pass on the end of input" in status["message"]
        assert "Kubernetes 1.30" in status["message"]
    until(lambda: not old_pods.opened())


def last_status(session):
    message = b"\0"
    while message[0] != END:
        message = session.recv(timeout=30)
    return json.loads(message[1:])


def test_an_api_server_that_speaks_no_known_protocol_is_told(own, tmp_path, ann):
    with PodServer(protocol=None) as silent:
        group = running_group(silent, tmp_path)
        with shell(own, group, ann) as session:
            assert session.wait_closed()[0] == 1011
            assert b"speaks none of v5.channel.k8s.io, v4.channel.k8s.io" in session.output
        until(lambda: not silent.opened())


def test_a_command_of_a_megabyte_is_refused_in_words(strict, group, ann, pods):
    path = f"/api/workflow/{group.workflow.name}/exec/task/task-0?entry_command={'x' * 2**20}"
    status, _, body = strict.send(f"Authorization: {ann['Authorization']}", method="POST", path=path)
    assert (status, body) == (431, b"The address and headers are over 32768 bytes.")
    assert pods.sessions == []


def test_a_command_of_the_longest_kind_runs_and_a_longer_one_is_refused_in_words(
    own, group, ann, pods, monkeypatch
):
    monkeypatch.setattr("websockets.http11.MAX_LINE_LENGTH", 2**20)  # of the stub
    command = ["echo", *["x"] * 4094]
    assert len(" ".join(command)) == 8192
    with shell(own, group, ann, " ".join(command)) as session:
        session.wait_for(b"\0")
        assert pods.sessions[0].query["command"] == command
    with pytest.raises(HTTPError) as refusal:
        shell(own, group, ann, " ".join(command) + "y")
    assert "no more than 8192 characters" in json.loads(refusal.value.read())["message"]


def test_output_that_is_cut_within_a_character_comes_as_it_is_cut(own, group, ann):
    with channels(own, group, ann, "say c3 a4", tty="False") as session:
        assert [message for message in session if message[0] == STDOUT][1:] == [b"\x01\xc3", b"\x01\xa4"]


def test_a_key_that_is_used_late_is_told(strict, group, ann, nothing_left, settings, redis_url):  # noqa: PLR0917 -- fixtures
    settings.CELERY_BROKER_URL = redis_url
    answer = answer_of(strict, group, ann)
    with shared_redis() as redis:  # as a minute later
        redis.delete(*redis.scan_iter(f"*{answer['key']}*"))
    with strict.connect(handshake(group, ann, answer["key"], OWN)) as client:
        client.settimeout(30)
        received = b""
        while data := client.recv(4096):
            received += data
    assert b"was used, has expired" in received
    nothing_left(group)


def test_web_that_is_killed_frees_the_cluster_and_forwards_of_other_processes(
    start_web, own, group, ann, pods
):
    Pool.objects.update(allow_port_forward=True)
    server = start_web()
    answer = ask_ports(f"http://127.0.0.1:{server.port}", group.workflow.name, "task-0", [ECHO], ann)[0]
    elsewhere = answer | {"router_address": f"ws://127.0.0.1:{own.port}"}
    name, key = group.workflow.name, minted()
    with (
        shell(server, group, ann) as session,
        socket(answer, name, ann) as control,
        socket(elsewhere, name, ann, key=key) as data,
    ):
        session.wait_for(b"\0")
        announce(control, key)
        exchanged(data, b"x")
        os.kill(process_of(server), signal.SIGKILL)
        assert session.wait_closed()[0] == 1006
        until(lambda: len(pods.opened()) == 1)
        with pytest.raises(ConnectionClosed):
            data.recv(timeout=120)
        assert data.close_code == 1000
    until(lambda: not pods.opened())


def test_a_forward_whose_caller_is_half_open_is_cut_and_counts_no_more(start_web, group, ann, pods):
    Pool.objects.update(allow_port_forward=True)
    pings = "import web.server.sockets as s; s.PING_SECONDS = 3"
    server = start_web(constants=pings, OSMO_USER_SESSIONS="1")
    address, name = f"http://127.0.0.1:{server.port}", group.workflow.name
    answer = ask_ports(address, name, "task-0", [ECHO], ann)[0]
    head = handshake(group, ann, answer["key"]).replace(b"/router/exec/", b"/router/portforward/")
    with server.connect(head) as control:
        assert control.recv(12) == b"HTTP/1.1 101"  # and nothing after it, no pong either
        ended = Event.objects.filter(reason="Session", message__endswith="lost, or web stopped.")
        until(ended.exists)
        answer = with_room(lambda: ask_ports(address, name, "task-0", [ECHO], ann))[0]
        key = minted()
        with socket(answer, name, ann) as living:
            announce(living, key)
            data = handshake(group, ann, key).replace(b"/router/exec/", b"/router/portforward/")
            with server.connect(data) as half_open:
                assert half_open.recv(12) == b"HTTP/1.1 101"
                until(lambda: pods.sessions)
                until(lambda: not pods.opened())
