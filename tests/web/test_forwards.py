"""Forwards of ports on web's event loop: keys, processes, bounds, and whatever either side does."""

import json
import os
import re
import signal
import time
from contextlib import ExitStack, contextmanager
from urllib.error import HTTPError

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from localcluster.servers import Home, start_redis
from localcluster.supervisor import Supervisor
from pools.models import Pool
from tests.builders.osmo_forward import announce, ask_ports, exchanged, minted, socket
from tests.builders.waiting import until
from tests.web.conftest import login, started_web
from web.limits.redis_server import shared_redis
from workflows.models import Event, Task

ECHO, REFUSING, DROPPING, DEAF, FLOODING, CLOSING = range(80, 86)
SECONDS = 60


@pytest.fixture(autouse=True)
def allowed(group):
    Pool.objects.update(allow_port_forward=True)


@pytest.fixture
def stands(settings, redis_url):
    """Whether a key that was announced stands for a connection by now."""
    settings.CELERY_BROKER_URL = redis_url

    def announced(key):
        with shared_redis() as redis:
            return redis.keys(f"*{key}")

    return announced


def address(server):
    return f"http://127.0.0.1:{server.port}"


def answers(server, group, who, ports=(ECHO,), task="task-0", **flags):
    return ask_ports(address(server), group.workflow.name, task, ports, who, **flags)


@contextmanager
def forward(server, group, who, port=ECHO):
    """An open control socket, and a function that opens a connection by it, on any server."""
    answer = answers(server, group, who, [port])[0]
    name = group.workflow.name
    with ExitStack() as stack:
        control = stack.enter_context(socket(answer, name, who))

        def connection(key=None, *, by=who, announced=True, at=server):
            key = key or minted()
            if announced:
                announce(control, key)
            there = answer | {
                "router_address": answer["router_address"].replace(str(server.port), str(at.port))
            }
            return stack.enter_context(socket(there, name, by, key=key))

        yield control, connection


def exhaust(data, seconds):
    while True:
        data.recv(timeout=seconds)


def closed(data, *, seconds=SECONDS):
    """The code and reason with which the service closes a socket."""
    with pytest.raises(ConnectionClosed) as end:
        exhaust(data, seconds)
    return end.value.rcvd.code, end.value.rcvd.reason


def refused(server, group, who, ports=(ECHO,), **flags):
    with pytest.raises(HTTPError) as refusal:
        answers(server, group, who, ports, **flags)
    body = json.loads(refusal.value.read())
    return refusal.value.code, body["error_code"], body["message"]


def test_each_connection_is_one_of_the_clusters_and_ends_with_it(own, group, ann, pods):
    with forward(own, group, ann) as (_, connection):
        first, second = connection(), connection()
        assert exchanged(first, b"\x00\xff one") == b"\x00\xff one"
        assert exchanged(second, b"x" * 50_000) == b"x" * 50_000
        assert len(pods.opened()) == 2
        first.close()
        until(lambda: len(pods.opened()) == 1)
        assert exchanged(second, b"still") == b"still"
    until(lambda: not pods.opened())
    assert all(session.query["ports"] == ["80"] for session in pods.sessions)


def test_there_is_a_key_for_each_port_in_their_order(own, group, ann, pods):
    got = answers(own, group, ann, [DEAF, ECHO, ECHO])
    assert [answer["cookie"] for answer in got] == [""] * 3
    assert len({answer["key"] for answer in got}) == 3
    key = minted()
    with socket(got[1], group.workflow.name, ann) as control:
        announce(control, key)
        with socket(got[1], group.workflow.name, ann, key=key) as data:
            assert exchanged(data, b"x") == b"x"


def test_control_and_data_may_reach_two_processes_and_data_may_come_first(own, strict, group, ann, pods):
    with forward(own, group, ann) as (control, connection):
        key = minted()
        early = connection(key, announced=False, at=strict)
        early.send(b"before")
        time.sleep(0.3)
        announce(control, key)
        assert early.recv(timeout=SECONDS) == b"before"
        control.close()
        assert closed(early) == (1000, "")
    until(lambda: not pods.opened())
    until(lambda: "6 bytes to the task, " in Event.objects.get(reason="Session").message)


def test_an_empty_message_ends_a_connection_as_osmos_client_means_it(own, group, ann, pods):
    with forward(own, group, ann) as (_, connection):
        data = connection()
        exchanged(data, b"x")
        data.send(b"")
        assert closed(data) == (1000, "")
        until(lambda: not pods.opened())


def test_what_the_cluster_ends_is_told(own, group, ann):
    with forward(own, group, ann, REFUSING) as (_, connection):
        reason = "Port 81 cannot be reached: dial tcp 127.0.0.1:81: connection refused"
        assert closed(connection()) == (1011, reason)


def test_a_connection_that_breaks_in_the_cluster_is_told_apart_from_one_that_the_task_closes(
    own, group, ann, pods
):
    with forward(own, group, ann, DROPPING) as (_, connection):
        reason = "The connection was cut off: the connection to the cluster was lost"
        assert closed(connection()) == (1012, reason)
    with forward(own, group, ann, CLOSING) as (_, connection):
        assert closed(connection()) == (1000, "")


def test_a_redis_that_is_away_ends_forwards_and_connections_so_that_clients_come_again(tmp_path, group, ann):
    paths = {"OSMO_KUBECONFIG_PATHS": json.dumps([str(tmp_path)])}
    with ExitStack() as stack:
        supervisor = stack.enter_context(Supervisor(log_dir=tmp_path))
        redis_url = start_redis(supervisor, Home.make(tmp_path / "redis"))
        server = stack.enter_context(started_web(tmp_path, redis_url, processes=1, **paths))
        control, connection = stack.enter_context(forward(server, group, ann))
        exchanged(connection(), b"x")
        waiting = connection(announced=False)
        supervisor.kill("redis")
        assert (closed(waiting)[0], "need Redis" in closed(waiting)[1]) == (1012, True)
        announce(control, minted())
        assert (closed(control)[0], "need Redis" in closed(control)[1]) == (1012, True)
        assert refused(server, group, ann)[0] == 503


def test_a_cluster_that_grants_nothing_is_told(own, group, ann, pods):
    pods.refusals["portforward"] = 403
    with forward(own, group, ann) as (_, connection):
        code, reason = closed(connection())
        assert (code, reason.startswith("The connection was cut off: ")) == (1011, True)


def test_a_pod_that_took_the_name_is_never_reached(own, group, ann, pods):
    for name in pods.uids:
        pods.uids[name] = "another"
    with forward(own, group, ann) as (_, connection):
        assert "replaced" in closed(connection())[1]
    assert pods.sessions == []


def test_a_key_is_good_once(own, group, ann, pods):
    with forward(own, group, ann) as (_, connection):
        key = minted()
        exchanged(connection(key), b"x")
        again = connection(key, announced=False)
        with pytest.raises(TimeoutError):
            again.recv(timeout=1)
        assert len(pods.opened()) == 1


def test_a_control_key_is_good_once(own, group, ann):
    answer = answers(own, group, ann)[0]
    with socket(answer, group.workflow.name, ann), socket(answer, group.workflow.name, ann) as again:
        assert closed(again) == (
            1011,
            "The session's key is not known: it was used, has expired or is somebody else's.",
        )


def test_a_key_opens_no_forward_once_the_pool_allows_none(own, group, ann):
    answer = answers(own, group, ann)[0]
    Pool.objects.update(allow_port_forward=False)
    with socket(answer, group.workflow.name, ann) as control:
        assert "does not allow this any more" in closed(control)[1]


def test_a_connection_opens_nothing_once_the_pool_allows_none(own, group, ann, pods, stands):
    with forward(own, group, ann) as (control, connection):
        key = minted()
        announce(control, key)
        until(lambda: stands(key))
        Pool.objects.update(allow_port_forward=False)
        assert closed(connection(key, announced=False))[0] != 1006
    assert pods.sessions == []


def test_keys_of_one_user_are_worth_nothing_to_another(own, group, ann, pods):
    ben = login("ben")
    with socket(answers(own, group, ann)[0], group.workflow.name, ben) as control:
        assert closed(control)[0] == 1011
    with forward(own, group, ann) as (_, connection), pytest.raises(TimeoutError):
        connection(by=ben).recv(timeout=1)
    assert pods.sessions == []


def test_keys_hold_for_the_life_of_their_control_socket_alone(own, group, ann, pods, stands):
    with forward(own, group, ann) as (control, connection):
        key = minted()
        announce(control, key)
        until(lambda: stands(key))
        control.close()
        until(lambda: Event.objects.get(reason="Session").message.endswith("The caller left."))
        assert closed(connection(key, announced=False)) == (1011, "The forward has ended.")
    assert pods.sessions == []


@pytest.mark.parametrize("message", [b"x", b"[]", b"{}", b'{"key": "PORTFORWARD-1"}', b'{"key": 1}', b"\xff"])
def test_what_announces_no_key_ends_the_forward_in_a_sentence(own, group, ann, message):
    with forward(own, group, ann) as (control, _):
        control.send(message)
        assert closed(control)[1].startswith("A connection is announced as JSON")


def test_many_connections_are_bounded_each_by_its_own_end(own, group, ann, pods):
    with forward(own, group, ann, DEAF) as (_, connection):
        held = [connection() for _ in range(32)]
        until(lambda: len(pods.opened()) == len(held))
        code, reason = closed(connection())
        assert (code, "as many connections" in reason) == (1012, True)


def test_connections_that_nobody_announces_are_bounded(own, group, ann):
    with forward(own, group, ann) as (_, connection):
        for _ in range(32):
            connection(announced=False)
        assert closed(connection(announced=False)) == (1012, "Too many connections wait to be announced.")
        assert own.json(f"Authorization: {ann['Authorization']}")[0] == 200


def test_a_caller_who_reads_nothing_of_a_flood_holds_up_nobody(own, group, ann, pods):
    with forward(own, group, ann, FLOODING) as (_, slow), forward(own, group, ann) as (_, connection):
        slow()
        assert exchanged(connection(), b"x") == b"x"


@pytest.mark.parametrize("loss", ["right", "task"])
def test_what_is_lost_ends_control_and_data_soon(own, group, ann, pods, loss):
    with forward(own, group, ann) as (control, connection):
        data = connection()
        exchanged(data, b"x")
        if loss == "right":
            Pool.objects.update(allow_port_forward=False)
        else:
            Task.objects.update(status="COMPLETED")
        code, reason = closed(control)
        assert (code, bool(reason)) == (1000, True)
        closed(data)
    until(lambda: not pods.opened())


def test_web_that_stops_closes_forwards_so_that_clients_come_again(start_web, group, ann, pods):
    server = start_web()
    with forward(server, group, ann) as (control, connection):
        exchanged(connection(), b"x")
        os.kill(server.pid, signal.SIGTERM)
        assert closed(control) == (1012, "service restart")
    until(lambda: not pods.opened())


def test_a_forward_counts_as_a_session_and_its_connections_do_not(start_web, group, ann):
    server = start_web(OSMO_USER_SESSIONS="1")
    with forward(server, group, ann) as (_, connection):
        assert exchanged(connection(), b"x") == exchanged(connection(), b"x")
        assert refused(server, group, ann, task="task-1")[:2] == (429, "BUSY")
        numbers = sessions_measured(server)
    assert numbers["served"] == numbers["forward"] == 1
    assert numbers["connection"] == 2
    until(lambda: sessions_measured(server)["forward"] == 0)


def sessions_measured(server):
    """The samples of sessions, by what their label says."""
    _, _, page = server.send(f"Authorization: Bearer {'m' * 40}", path="/metrics")
    found_values = {}
    for line in page.decode().splitlines():
        if match := re.match(r'osmo_topology_task_sessions_\w+\{\w+="([\w-]+)"\} (\S+)', line):
            found_values[match[1]] = float(match[2])
    return found_values


def test_forwards_of_one_task_are_one_session_whatever_their_ports_and_processes(
    start_web, strict, group, ann
):
    servers = [strict, start_web(OSMO_USER_SESSIONS="1")]
    name = group.workflow.name
    with ExitStack() as stack:
        for server in servers:
            for answer in answers(server, group, ann, range(80, 95)):
                stack.enter_context(socket(answer, name, ann))
        until(lambda: Event.objects.filter(reason="Session").count() == 30)
        more_of_same = refused(servers[0], group, ann)
        assert (more_of_same[0], "You have 30 forwarded ports of this task" in more_of_same[2]) == (429, True)
        other = refused(servers[1], group, ann, task="task-1")
        assert (other[0], "You have 1 sessions in tasks" in other[2]) == (429, True)


def test_refusals_have_osmos_words(own, group, ann):
    name = group.workflow.name
    assert refused(own, group, ann, []) == (400, "USER", "No port is provided!")
    assert refused(own, group, ann, range(1, 32))[:2] == (400, "USER")
    assert refused(own, group, ann, udp=True)[:2] == (400, "USER")
    assert refused(own, group, ann, [70_000])[0] == 400
    Pool.objects.update(allow_port_forward=False)
    assert refused(own, group, ann)[0] == 403
    Pool.objects.update(allow_port_forward=True)
    Task.objects.update(status="COMPLETED")
    assert refused(own, group, ann) == (404, "USER", f"Task task-0 is not running in workflow {name}!")
    group.workflow.status = "COMPLETED"
    group.workflow.save()
    assert refused(own, group, ann) == (410, "USER", f"Workflow {name} is not running!")


def test_a_page_of_another_site_opens_no_forward(own, group, ann):
    with pytest.raises(InvalidStatus) as refusal:
        socket(answers(own, group, ann)[0], group.workflow.name, {**ann, "Origin": "https://evil.example"})
    assert refusal.value.response.status_code == 403


def test_a_forward_is_a_line_of_the_timeline_with_its_port_and_bytes(own, group, ann):
    with forward(own, group, ann) as (_, connection):
        exchanged(connection(), b"four")
        assert (
            Event.objects.get(reason="Session").message == "ann from 127.0.0.1 forwarded port 80 of the task."
        )
    until(lambda: "4 bytes to the task, 4 bytes from it" in Event.objects.get(reason="Session").message)
