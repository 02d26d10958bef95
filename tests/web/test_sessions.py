"""Sessions in tasks on web's event loop: whatever either side does, both are freed, and others are served."""

import json
import os
import select
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from websockets.exceptions import InvalidStatus
from websockets.frames import Frame, Opcode

from pools.models import Pool
from tests.builders.osmo_exec import open_session
from tests.builders.pod_server import END, STDIN, STDOUT
from tests.builders.waiting import until
from tests.factories import TaskGroupFactory
from tests.web.conftest import SECRET, SECRET_KEY, login, process_of, running_group
from tests.web.session_callers import (
    OWN,
    answer_of,
    channels,
    handshake,
    opened_channels,
    shell,
    thread_count,
)
from web.limits import redis_server
from web.models import PersonalToken, Role, RoleAssignment
from workflows.models import Event, Task
from workflows.tasks import sweep_sessions

SECONDS = 60


@pytest.fixture
def _broker(settings, redis_url):
    settings.CELERY_BROKER_URL = redis_url


def ended(pods):
    """Wait until the cluster has no session any more."""
    until(lambda: pods.sessions and not pods.opened())


def test_bytes_go_both_ways_with_the_size_before_them_and_nothing_is_left_at_the_end(own, group, ann, pods):
    with shell(own, group, ann, rows=33, columns=101) as session:
        session.wait_for(b"\0")
        session.type(b"h\xff\x00\n")
        session.wait_for(b"h\xff\x00")
        session.resize(50, 120)
        session.send(b"exit")
        assert session.wait_closed() == (1000, "")
    ended(pods)
    assert [data for channel, data in pods.sessions[0].input if channel == 4] == [
        b'{"Width": 101, "Height": 33}',
        b'{"Width": 120, "Height": 50}',
    ]
    assert pods.sessions[0].query["container"] == ["task-0"]


def test_a_command_that_prints_nothing_first_wakes_osmos_client_all_the_same(own, group, ann):
    with shell(own, group, ann) as session:
        session.wait_for(b"\0")
        assert session.first == b"\0"


def test_a_terminal_without_a_size_is_none_for_the_task(own, group, ann, pods):
    with shell(own, group, ann, rows=0, columns=0) as session:
        session.wait_for(b"\0")
        session.send(b"exit")
        session.wait_closed()
    assert pods.sessions[0].input == [(STDIN, b"exit")]


@pytest.mark.parametrize("size", [b"24x80", b'{"Rows": 1}', b"[1]", b'{"Rows": "x", "Cols": 1}', b"\xff"])
def test_a_size_that_is_none_ends_in_a_sentence(own, group, ann, pods, size):
    with shell(own, group, ann, size=size) as session:
        assert session.wait_closed() == (1000, "")
        assert b"terminal's size" in session.output
    assert pods.sessions == []


def test_the_exit_of_a_command_is_told_in_words(own, group, ann):
    with shell(own, group, ann, "exit 7") as session:
        assert session.wait_closed() == (1000, "")
        assert session.output.endswith(b"exit status 7\r\n")


def test_a_group_gets_whole_lines_of_text_whatever_the_cluster_cuts(own, group, ann):
    chunks = " ".join(text.hex() for text in (b"one\r\nt\xc3", b"\xa4", b"\r\n", b"bad\xff\n", b"last"))
    answers = answer_of(own, group, ann, f"say {chunks}", target=f"group/{group.name}")
    assert sorted(answers) == ["task-0", "task-1"]
    with open_session(answers["task-1"], group.workflow.name, ann) as session:
        assert session.wait_closed() == (1000, "")
        assert session.output.decode() == "one\nt\u00e4\nbad\ufffd\nlast\n"


def test_our_own_command_gets_output_errors_and_the_exit_code_apart(own, group, ann, pods):
    with channels(own, group, ann, "exit 7", tty="False") as session:
        messages = list(session)
    assert messages[0] == bytes((STDOUT,))
    assert messages[-1][0] == END
    assert json.loads(messages[-1][1:])["details"]["causes"][0]["message"] == "7"
    assert pods.sessions[0].query["tty"] == ["false"]
    assert pods.sessions[0].query["stderr"] == ["true"]


def test_the_end_of_input_reaches_the_command(own, group, ann):
    with channels(own, group, ann, tty="False") as session:
        session.send(bytes((STDIN,)) + b"text")
        session.send(bytes((255, STDIN)))
        messages = list(session)
    assert bytes((STDOUT,)) + b"text" in messages
    assert json.loads(messages[-1][1:])["status"] == "Success"


def test_a_key_is_good_once(own, group, ann):
    answer = answer_of(own, group, ann)
    with open_session(answer, group.workflow.name, ann) as first:
        first.wait_for(b"\0")
        with open_session(answer, group.workflow.name, ann) as second:
            assert second.wait_closed() == (1000, "")
            assert b"key is not known" in second.output


def test_bad_keys_beyond_a_bound_are_refused_with_the_handshake(own, group, ann):
    request = handshake(group, ann, "EXEC-0")
    with ExitStack() as stack:
        for _ in range(8):
            assert stack.enter_context(own.connect(request)).recv(12) == b"HTTP/1.1 101"
        assert stack.enter_context(own.connect(request)).recv(12) == b"HTTP/1.1 403"
        other = handshake(group, login("ben"), "EXEC-0")
        assert stack.enter_context(own.connect(other)).recv(12) == b"HTTP/1.1 101"
    until(lambda: first_line(own, request) == b"HTTP/1.1 101")


def first_line(server, request):
    with server.connect(request) as client:
        return client.recv(12)


def test_a_key_is_worth_nothing_to_another_user(own, group, ann, pods):
    answer = answer_of(own, group, ann)
    with open_session(answer, group.workflow.name, login("ben")) as session:
        assert session.wait_closed() == (1000, "")
        assert b"somebody else" in session.output
    assert pods.sessions == []


def test_a_key_is_worth_nothing_for_another_workflow(own, group, ann, pods):
    other = TaskGroupFactory(pool=Pool.objects.get(name=group.workflow.pool_name)).workflow
    with open_session(answer_of(own, group, ann), other.name, ann) as session:
        assert session.wait_closed() == (1000, "")
    assert pods.sessions == []


def test_a_page_of_another_site_opens_no_session(own, group, ann):
    answer = answer_of(own, group, ann)
    with pytest.raises(InvalidStatus) as refusal:
        open_session(answer, group.workflow.name, {**ann, "Origin": "https://evil.example"})
    assert refusal.value.response.status_code == 403


def test_a_stranger_opens_no_session(own, group, ann):
    answer = answer_of(own, group, ann)
    with pytest.raises(InvalidStatus) as refusal:
        open_session(answer, group.workflow.name, {})
    assert refusal.value.response.status_code == 401


def test_no_other_address_is_upgraded(own, ann):
    head = "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
    status, _, _ = own.send(*head, key, f"Authorization: {ann['Authorization']}", path="/api/pool")
    assert status == 200


def test_an_address_of_sessions_without_an_upgrade_uses_no_key(own, group, ann):
    answer = answer_of(own, group, ann)
    path = f"/api/router/exec/{group.workflow.name}/client/{answer['key']}"
    status, body = own.json(f"Authorization: {ann['Authorization']}", path=path)
    assert (status, body["error_code"]) == (400, "USAGE")
    with open_session(answer, group.workflow.name, ann) as session:
        session.wait_for(b"\0")


def test_a_pod_that_took_the_name_is_never_reached(own, group, ann, pods):
    for name in pods.uids:
        pods.uids[name] = "another"
    with shell(own, group, ann) as session:
        code, _ = session.wait_closed()
        assert code == 1011
        assert b"was replaced" in session.output
    assert pods.sessions == []


def test_a_pod_that_takes_the_name_during_the_handshake_hears_nothing(own, group, ann, pods):
    pods.successors = dict.fromkeys(pods.uids, "another")
    with shell(own, group, ann, rows=0, columns=0) as session:
        session.send(b"secret")
        assert session.wait_closed()[0] == 1011
        assert b"was replaced" in session.output
    ended(pods)
    assert pods.sessions[0].input == []


def test_a_cluster_that_answers_with_a_page_ends_the_session_in_a_sentence(own, group, ann, pods):
    pods.refusals = dict.fromkeys(pods.uids, 200)
    with shell(own, group, ann) as session:
        assert session.wait_closed()[0] == 1011
        assert b"not the pod" in session.output
    assert pods.sessions == []


@pytest.mark.parametrize("status", [403, 500])
def test_a_cluster_that_refuses_ends_the_session_in_a_sentence(own, group, ann, pods, status):
    pods.refusals["exec"] = status
    with shell(own, group, ann) as session:
        assert session.wait_closed()[0] == 1011
        assert b"cut off" in session.output


def test_a_session_that_the_cluster_drops_ends_so_that_osmos_client_comes_again(own, group, ann):
    with shell(own, group, ann, "drop") as session:
        assert session.wait_closed()[0] not in {1000, 1001}
        assert b"cut off" in session.output


def test_a_client_that_is_killed_frees_the_cluster_too(own, group, ann, pods):
    session = shell(own, group, ann)
    session.wait_for(b"\0")
    session.hang_up()
    ended(pods)
    until(
        lambda: Event.objects.get(reason="Session").message.endswith(
            " The connection was lost, or web stopped."
        )
    )


def test_a_client_that_reads_nothing_of_a_flood_is_not_held_in_memory_and_is_cut(own, group, ann, pods):
    with channels(own, group, ann, "flood"):
        until(pods.opened)
        time.sleep(3)
        assert mebibytes(own) < 260
        assert len(pods.opened()) == 1
        until(lambda: not pods.opened())


def test_what_comes_with_the_handshake_is_read_whatever_its_size(own, group, ann, pods):
    size, messages = 60_000, 20
    frame = Frame(Opcode.BINARY, bytes((STDIN,)) + b"x" * size).serialize(mask=True)
    request = handshake(group, ann, answer_of(own, group, ann)["key"], OWN)
    with own.connect() as client, ThreadPoolExecutor(1) as threads:
        threads.submit(client.sendall, request + frame * messages)
        left = size * messages
        while left > 0:
            data = client.recv(2**16)
            assert data
            left -= len(data)
    assert len(pods.sessions[0].input) == messages


def test_a_caller_whose_pings_ask_for_more_than_it_takes_is_not_read_and_is_cut(start_web, group, ann, pods):
    server = start_web(constants="import web.server.protocol as p; p.ANSWER_SECONDS = 6")
    pings = Frame(Opcode.PING, b"x" * 125).serialize(mask=True) * 500_000  # 65 MB
    with server.connect(handshake(group, ann, answer_of(server, group, ann)["key"], OWN)) as client:
        until(pods.opened)
        client.settimeout(1)
        with pytest.raises(TimeoutError):
            client.sendall(pings)
        assert len(pods.opened()) == 1
        until(lambda: not pods.opened())


def test_a_right_that_is_taken_away_ends_the_session_soon(own, group, ann, pods):
    with shell(own, group, ann) as session:
        session.wait_for(b"\0")
        RoleAssignment.objects.create(user=User.objects.get(username="ann"), role="osmo-elsewhere")
        assert session.wait_closed() == (1000, "")
        assert b"taken away" in session.output
    ended(pods)


def test_a_user_who_is_deactivated_has_no_session_any_more(own, group, ann):
    with shell(own, group, ann) as session:
        session.wait_for(b"\0")
        User.objects.filter(username="ann").update(is_active=False)
        assert session.wait_closed() == (1000, "")
        assert b"taken away" in session.output


def test_who_administers_the_pool_no_more_has_no_session_in_tasks_of_others(own, group, ann):
    pool = f"pool/{group.workflow.pool_name}"
    words = [{"actions": ["workflow:*", "config:Update"], "resources": [pool]}]
    role = Role.objects.create(name="keeper", policies=words)
    keeper = login("ben")
    User.objects.get(username="ben").role_assignments.create(role="keeper")
    with shell(own, group, keeper) as session:
        session.wait_for(b"\0")
        role.policies = [words[0] | {"actions": ["workflow:*"]}]
        role.save()
        assert session.wait_closed() == (1000, "")
        assert b"taken away" in session.output


def test_a_token_that_is_revoked_ends_its_sessions_soon(own, group, ann):
    with shell(own, group, ann) as session:
        session.wait_for(b"\0")
        PersonalToken.objects.all().delete()
        assert session.wait_closed() == (1000, "")
        assert b"revoked or has expired" in session.output


def test_a_token_that_expires_ends_its_sessions(own, group, ann):
    with shell(own, group, ann) as session:
        session.wait_for(b"\0")
        PersonalToken.objects.update(expiry=timezone.now())
        assert session.wait_closed() == (1000, "")
        assert b"revoked or has expired" in session.output


def browser_logs_out(browser):
    browser.logout()


def password_changes(browser):
    user = User.objects.get(username="ann")
    user.set_password("another")
    user.save()


def user_is_deactivated(browser):
    User.objects.filter(username="ann").update(is_active=False)


@pytest.mark.parametrize(
    "end",
    [
        (browser_logs_out, b"revoked or has expired"),
        (password_changes, b"revoked or has expired"),
        (user_is_deactivated, b"taken away"),
    ],
)
def test_a_browser_whose_login_ends_has_no_session_any_more(own, group, ann, settings, end):
    change, sentence = end
    settings.SECRET_KEY = SECRET_KEY
    browser = Client()
    browser.force_login(User.objects.get(username="ann"))
    cookie = {"Cookie": f"sessionid={browser.cookies['sessionid'].value}"}
    answer = answer_of(own, group, ann, tty="False")
    with opened_channels(answer, group, cookie) as session:
        assert session.recv() == bytes((STDOUT,))
        change(browser)
        assert sentence in session.recv(timeout=SECONDS)


def test_a_gateways_word_holds_for_a_session_of_limited_length(start_web, group, ann):
    server = start_web(OSMO_SESSION_LIFE_SECONDS="2")
    gateway = {"x-osmo-user": "ann", "x-osmo-roles": "osmo-user", "x-osmo-proxy-secret": SECRET}
    with shell(server, group, gateway) as session:
        session.wait_for(b"\0")
        assert session.wait_closed()[0] == 1012
        assert b"lasts 2 seconds with this login" in session.output


def test_a_pool_that_allows_exec_no_more_ends_its_sessions(own, group, ann):
    with shell(own, group, ann) as session:
        session.wait_for(b"\0")
        Pool.objects.update(allow_exec=False)
        assert session.wait_closed() == (1000, "")
        assert b"does not allow" in session.output


def test_a_task_that_runs_no_more_ends_its_sessions_whatever_its_kubelet_does(own, group, ann, pods):
    with shell(own, group, ann) as session:
        session.wait_for(b"\0")
        Task.objects.update(status="COMPLETED")
        assert session.wait_closed() == (1000, "")
        assert b"Task task-0 is not running any more" in session.output
    ended(pods)


def test_a_session_in_which_nothing_is_said_ends(start_web, group, ann):
    server = start_web(OSMO_SESSION_IDLE_SECONDS="2")
    with shell(server, group, ann) as session:
        session.wait_for(b"\0")
        assert session.wait_closed() == (1000, "")
        assert b"Nothing was said for 2 seconds" in session.output


def test_a_session_too_many_is_refused_with_the_post(strict, group, ann):
    with shell(strict, group, ann) as session:
        session.wait_for(b"\0")
        path = f"/api/workflow/{group.workflow.name}/exec/task/task-0?entry_command=echo"
        status, body = strict.json(f"Authorization: {ann['Authorization']}", method="POST", path=path)
        assert status == 429
        assert "You have 1 sessions in tasks, and 1 more would be too many" in body["message"]


def pool_allows_no_more(group):
    Pool.objects.update(allow_exec=False)


def role_is_taken(group):
    RoleAssignment.objects.create(user=User.objects.get(username="ann"), role="osmo-elsewhere")


def task_has_ended(group):
    Task.objects.filter(group=group).update(status="COMPLETED")


@pytest.mark.parametrize(
    "loss",
    [
        (pool_allows_no_more, b"does not allow this any more"),
        (role_is_taken, b"taken away"),
        (task_has_ended, b"not running any more"),
    ],
)
def test_a_key_opens_nothing_once_its_right_is_gone(own, group, ann, pods, loss):
    change, sentence = loss
    answer = answer_of(own, group, ann)
    change(group)
    with open_session(answer, group.workflow.name, ann) as session:
        assert session.wait_closed() == (1000, "")
        assert sentence in session.output
    assert pods.sessions == []
    assert not Event.objects.filter(reason="Session").exists()


def test_keys_beyond_the_limit_open_nothing(strict, group, ann, pods):
    answers = [answer_of(strict, group, ann) for _ in range(2)]
    with open_session(answers[0], group.workflow.name, ann) as first:
        first.wait_for(b"\0")
        with open_session(answers[1], group.workflow.name, ann) as second:
            assert second.wait_closed() == (1000, "")
            assert b"too many: 1 may be at a time" in second.output
    assert len(pods.sessions) == 1


@pytest.mark.parametrize(("whose", "sentence"), [("USER", b"You have 3"), ("POOL", b"Pool ")])
def test_a_limit_holds_for_all_web_processes_however_they_race(start_web, group, ann, whose, sentence):
    """A handshake is answered before the session is counted, so all of them race."""
    limits = {f"OSMO_{whose}_SESSIONS": "3"}
    servers = [start_web(**limits), start_web(**limits)]
    keys = [(servers[n % 2], answer_of(servers[n % 2], group, ann, tty="False")) for n in range(10)]
    with ExitStack() as stack, ThreadPoolExecutor(len(keys)) as threads:
        sessions = list(threads.map(lambda key: opened_channels(key[1], group, ann), keys))
        entered = [stack.enter_context(session) for session in sessions]
        firsts = list(threads.map(lambda session: session.recv(timeout=SECONDS), entered))
        assert firsts.count(bytes((STDOUT,))) == 3
        assert sum(sentence in first and b"3 may be at a time" in first for first in firsts) == 7
        for server in servers:
            assert post_status(server, group, ann) == 429
    until(lambda: post_status(servers[0], group, ann) == 200)


@pytest.mark.usefixtures("_broker")
def test_sessions_of_a_process_that_was_killed_soon_count_no_more(start_web, strict, group, ann):
    server = start_web(OSMO_USER_SESSIONS="1")
    with shell(server, group, ann) as session:
        session.wait_for(b"\0")
        time.sleep(6)  # a look has put it off
        os.kill(process_of(server), signal.SIGKILL)
        session.wait_closed()
        assert post_status(strict, group, ann) == 429
        until(lambda: post_status(strict, group, ann) == 200)


def post_status(server, group, who):
    path = f"/api/workflow/{group.workflow.name}/exec/task/task-0?entry_command=echo"
    return server.json(f"Authorization: {who['Authorization']}", method="POST", path=path)[0]


def test_web_that_stops_closes_sessions_so_that_osmos_client_comes_again(start_web, group, ann, pods):
    server = start_web()
    with shell(server, group, ann) as session:
        session.wait_for(b"\0")
        os.kill(server.pid, signal.SIGTERM)
        assert session.wait_closed() == (1012, "service restart")
    ended(pods)


def test_each_session_is_a_line_of_the_timeline(own, group, ann):
    with shell(own, group, ann, "echo 'a b'") as session:
        session.wait_for(b"\0")
        event = Event.objects.get(reason="Session")
        assert (event.task_name, event.workflow_id) == ("task-0", group.workflow_id)
        assert event.message == "ann from 127.0.0.1 ran echo 'a b' in the task."
        session.send(b"exit")
        session.wait_closed()
    until(lambda: "4 bytes to the task, 4 bytes from it" in Event.objects.get(reason="Session").message)


@pytest.mark.usefixtures("_broker")
def test_a_line_whose_web_is_killed_is_completed_by_the_workers(start_web, group, ann):
    server = start_web()
    with shell(server, group, ann) as session:
        session.wait_for(b"\0")
        sweep_sessions()
        assert Event.objects.get(reason="Session").message.endswith(" in the task.")
        os.kill(process_of(server), signal.SIGKILL)
        session.wait_closed()
        with redis_server.shared_redis() as redis:  # as a minute later
            redis.delete(*redis.scan_iter("osmo-topology:session-process:*"))
        sweep_sessions()
        sweep_sessions()
    assert Event.objects.get(reason="Session").message == (
        "ann from 127.0.0.1 ran echo in the task. Its web process was killed, so how it ended is not known."
    )


def mebibytes(server):
    """The memory of its process."""
    pid = process_of(server)
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


SESSIONS = 500
MIB_OF_ALL = 100.0


@pytest.mark.deep
def test_five_hundred_sessions_of_one_process_take_no_thread_and_little_memory(start_web, group, ann, pods):
    bounds = {f"OSMO_{whose}SESSIONS": str(SESSIONS) for whose in ("", "USER_", "POOL_")}
    server = start_web(OSMO_WEB_THREADS="8", **bounds)
    size, threads = mebibytes(server), thread_count(server)
    with ExitStack() as stack:
        for _ in range(SESSIONS):
            session = stack.enter_context(channels(server, group, ann, tty="False"))
            assert session.recv() == bytes((STDOUT,))
            last = session
        assert server.json(f"Authorization: {ann['Authorization']}")[0] == 200
        last.send(bytes((STDIN,)) + b"text")
        assert last.recv() == bytes((STDOUT,)) + b"text"
        assert len(pods.opened()) == SESSIONS
        assert mebibytes(server) - size < MIB_OF_ALL
        assert thread_count(server) - threads <= 8 + 5 + 8  # of requests, of sessions, of asyncio itself
    until(lambda: not pods.opened())


FLOODED = 100
MIB_OF_FLOODED = 40.0


def test_sessions_whose_output_nobody_takes_wait_in_the_cluster(start_web, tls_pods, tmp_path, ann):
    group = running_group(tls_pods, tmp_path)
    bounds = {f"OSMO_{whose}SESSIONS": str(FLOODED) for whose in ("", "USER_", "POOL_")}
    server = start_web(constants="import web.server.sockets as s; s.PING_SECONDS = 600", **bounds)
    with ExitStack() as stack:
        clients = []
        for _ in range(FLOODED):
            key = answer_of(server, group, ann, "flood_later", tty="False")["key"]
            clients.append(stack.enter_context(server.connect(handshake(group, ann, key, OWN))))
        until(lambda: len(tls_pods.opened()) == FLOODED)
        size = mebibytes(server)
        for client in clients:
            client.sendall(Frame(Opcode.BINARY, bytes((STDIN,))).serialize(mask=True))
        time.sleep(5)
        grown = mebibytes(server) - size
        assert len(tls_pods.opened()) == FLOODED
    assert grown < MIB_OF_FLOODED


HALF_OPEN = 200


@pytest.mark.deep
def test_half_open_sockets_leave_other_callers_as_they_were(start_web, group, ann, pods):
    bounds = {f"OSMO_{whose}SESSIONS": str(HALF_OPEN) for whose in ("USER_", "POOL_")}
    server = start_web(**bounds)
    with ExitStack() as stack:
        for _ in range(HALF_OPEN):
            answer = answer_of(server, group, ann)
            client = stack.enter_context(server.connect(handshake(group, ann, answer["key"])))
            assert client.recv(4096).startswith(b"HTTP/1.1 101")
        for _ in range(20):
            assert server.json(f"Authorization: {ann['Authorization']}")[0] == 200
        assert not select.select([client], [], [], 0)[0], "its handshake has ended already"
        assert pods.sessions == []
        client.settimeout(60)
        while client.recv(4096):  # it is told what was missing, and let go
            pass
