"""What a client may make web wait for, or hold: bounded in time, number and memory, and the oldest goes."""

import http.client
import json
import select
import socket
import threading
import time
from contextlib import ExitStack, contextmanager

import psycopg
import pytest
from django.contrib.auth.models import User
from django.db import connection

from localcluster.ports import LOOPBACK
from pools.selectors import installation
from tests.factories import PoolFactory
from tests.web.conftest import SECONDS, started_web
from tests.web.wire import HALF_A_BODY, HALF_A_HEADER
from web.access.services import make_token
from web.limits.turns import MOST_SHORT, MOST_WAITING_OF_USER

MOST = 30
WORKERS = 2
PROTOCOL = "from web.server import protocol as own"  # gunicorn has a setting of the other name
LARGE = "/static/drf_spectacular_sidecar/redoc/bundles/redoc.standalone.js"


@pytest.fixture(scope="module")
def strict_server(django_db_setup, django_db_blocker, tmp_path_factory, redis_url):
    bounds = f"{PROTOCOL}; own.HEADER_SECONDS = own.BODY_SECONDS = own.ANSWER_SECONDS = 2.0"
    with django_db_blocker.unblock():
        stack = ExitStack()
        server = stack.enter_context(
            started_web(tmp_path_factory.mktemp("strict"), redis_url, constants=bounds)
        )
    with stack:
        yield server


@pytest.fixture
def patient_server(transactional_db, tmp_path, redis_url):
    """Each process bears few connections of an address, and waits long for what comes on them."""
    limits = {
        "constants": f"{PROTOCOL}; own.HEADER_SECONDS = 250.0",
        "OSMO_ADDRESS_CONNECTIONS": str(MOST),
    }
    with started_web(tmp_path, redis_url, **limits) as server:
        yield server


@pytest.fixture
def narrow_server(transactional_db, tmp_path, redis_url):
    """Each process answers one request at a time, and lets none wait for its thread."""
    with started_web(tmp_path, redis_url, OSMO_WEB_THREADS="1", OSMO_WEB_QUEUE="0") as server:
        yield server


def refusals(server, reason):
    """How often the server has refused for a reason."""
    _, _, page = server.send(f"Authorization: Bearer {'m' * 40}", path="/metrics")
    lines = [line for line in page.decode().splitlines() if f'reason="{reason}"' in line]
    return sum(float(line.split()[-1]) for line in lines)


@pytest.mark.parametrize("sent", [b"", HALF_A_HEADER, HALF_A_BODY], ids=["nothing", "a header", "a body"])
def test_half_a_request_is_ended_with_a_sentence(strict_server, sent):
    with strict_server.connect(sent) as client:
        assert b"408 Request Timeout" in http_answer(client)


def http_answer(client):
    """Everything that comes until the server closes."""
    pieces = []
    try:
        while piece := client.recv(65536):
            pieces.append(piece)
    except ConnectionResetError:
        pass
    return b"".join(pieces)


def test_a_body_that_drips_is_ended_too(strict_server):
    with strict_server.connect(HALF_A_BODY) as client:
        stop = threading.Event()

        def drip():
            while not stop.wait(0.1):
                try:
                    client.sendall(b" ")
                except OSError:
                    return

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            answer = http_answer(client)
        finally:
            stop.set()
            dripping.join()
        assert b"408" in answer or answer == b""  # or the reset came before it


def test_headers_without_end_are_refused_before_they_fill_the_memory(strict_server):
    with strict_server.connect(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n") as client:
        for number in range(40):
            try:
                client.sendall(f"X-{number}: {'x' * 2000}\r\n".encode())
            except OSError:
                break
        answer = http_answer(client)
    assert answer.startswith(b"HTTP/1.1 431") or not answer  # or the reset came before it
    assert refusals(strict_server, "headers_large") == 1


def test_an_address_cuts_its_own_oldest_and_nobody_elses(patient_server):
    with ExitStack() as stack:

        def connect(**named):
            return stack.enter_context(patient_server.connect(HALF_A_HEADER, **named))

        other, first = connect(address="127.0.0.9"), connect()
        for _ in range(20 * MOST):  # as many as it takes in the process of the first
            connect()
            if select.select([first], [], [], 0)[0]:
                break
        assert patient_server.send(path="/livez")[0] == 200
        assert b"408" not in http_answer(first)
        other.sendall(b"ow: 1\r\n\r\n")
        answer = http.client.HTTPResponse(other)
        answer.begin()
        assert answer.status == 401
    assert refusals(patient_server, "address_connections") >= 1


def test_an_answer_that_nobody_reads_is_cut(strict_server):
    request = f"GET {LARGE} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect((LOOPBACK, strict_server.port))
        client.sendall(request * 20)
        until = time.monotonic() + SECONDS
        while not refusals(strict_server, "answer_unread"):
            assert time.monotonic() < until
            time.sleep(0.2)
        assert strict_server.send(path=LARGE)[0] == 200


def test_clients_that_leave_in_the_middle_of_answers_write_no_warnings(strict_server):
    for _ in range(10):
        with strict_server.connect() as client:
            client.sendall(f"GET {LARGE} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            client.recv(1024)
    assert strict_server.send(path=LARGE)[0] == 200
    assert "socket.send() raised exception" not in strict_server.log.read_text()


@contextmanager
def lock_held(statement):
    """Another connection to the database, which has taken a lock and keeps it until it is rolled back."""
    database = connection.settings_dict
    with psycopg.connect(
        host=database["HOST"],
        port=database["PORT"],
        user=database["USER"],
        password=database["PASSWORD"],
        dbname=database["NAME"],
    ) as other:
        other.execute(statement)
        yield other


@pytest.fixture
def locked_users(transactional_db):
    """Requests that look up who is calling wait, as they do behind a slow database."""
    with lock_held("LOCK TABLE web_personaltoken IN ACCESS EXCLUSIVE MODE") as other:
        yield other


@pytest.fixture
def administrator(transactional_db):
    """The header of somebody who may change configuration."""
    return f"Authorization: Bearer {make_token(User.objects.create_user('root', is_staff=True), name='t')}"


@pytest.fixture
def locked_configuration(transactional_db):
    """Another change of configuration is being made, and does not end."""
    PoolFactory(name="train")
    installation()
    with lock_held("SELECT * FROM pools_installation FOR UPDATE") as other:
        yield other


def test_changes_that_wait_for_another_one_leave_threads_for_others(
    web_server, administrator, locked_configuration
):
    change = json.dumps({"configs_dict": {"description": "z"}})
    headers = {"Authorization": administrator.partition(": ")[2], "Content-Type": "application/json"}
    at_once = WORKERS * (MOST_SHORT + 1 + MOST_WAITING_OF_USER)
    with ExitStack() as stack:
        callers = [http.client.HTTPConnection(LOOPBACK, web_server.port, timeout=60) for _ in range(50)]
        for caller in callers:
            stack.callback(caller.close)
            caller.request("PATCH", "/api/configs/pool/train", body=change, headers=headers)
        refused = answered(callers, at_least=len(callers) - at_once)
        assert {caller.getresponse().status for caller in refused} == {429}
        assert web_server.send(administrator, path="/api/pool")[0] == 200
        locked_configuration.rollback()
        statuses = {caller.getresponse().status for caller in callers if caller not in refused}
        assert 200 in statuses
        assert statuses <= {200, 429}


def test_a_caller_is_asked_to_come_again_when_all_threads_are_busy(narrow_server, token, locked_users):
    header = {"Authorization": token.partition(": ")[2]}
    with ExitStack() as stack:
        callers = [http.client.HTTPConnection(LOOPBACK, narrow_server.port, timeout=30) for _ in range(10)]
        for caller in callers:
            stack.callback(caller.close)
            caller.request("GET", "/api/profile/settings", headers=header)
        refused = answered(callers, at_least=len(callers) - WORKERS)
        for caller in refused:
            answer = caller.getresponse()
            assert (answer.status, answer.headers["Retry-After"]) == (503, "2")
            assert answer.headers["Cache-Control"] == "no-store"
            assert {"Authorization", "Cookie"} <= set(answer.headers["Vary"].split(", "))
        assert narrow_server.send(path="/livez")[0] == 200
        assert narrow_server.json(path="/readyz")[1]["database"] == "ok"
        locked_users.rollback()
        statuses = {caller.getresponse().status for caller in callers if caller not in refused}
        assert 200 in statuses
        assert statuses <= {200, 503}  # all but one may have reached the same process


def answered(callers, *, at_least):
    """The callers for whom an answer is there, as soon as there are so many."""
    until = time.monotonic() + SECONDS
    while True:
        readable, _, _ = select.select([caller.sock for caller in callers], [], [], 0.2)
        if len(readable) >= at_least:
            return [caller for caller in callers if caller.sock in readable]
        assert time.monotonic() < until
