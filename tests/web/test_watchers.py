"""A thousand watchers on one process."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from django.db import connection

from tests.factories import PoolFactory, TaskGroupFactory
from tests.web.conftest import started_web
from workflows.models import TaskGroup

WATCHERS, WORKFLOWS = 1000, 100
AT_ONCE = 20
"""Watchers that begin together: no more than the queue takes."""

THREADS = 8
MIB_OF_ALL = 100.0


@pytest.fixture
def one_process(transactional_db, tmp_path, redis_url):
    bounds = {"OSMO_WATCHERS": str(WATCHERS * 5 // 4), "OSMO_USER_WATCHERS": str(WATCHERS)}
    with started_web(tmp_path, redis_url, processes=1, OSMO_WEB_THREADS=str(THREADS), **bounds) as server:
        yield server


def mebibytes(server):
    """The memory of its process."""
    pid = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()[0]
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def database_connections():
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        return cursor.fetchone()[0]


def read_to(stream, text):
    """Read a stream up to the line that has a text."""
    assert any(text in line for line in stream), f"it ended without {text}"


@pytest.mark.deep
def test_a_thousand_watchers_of_one_process_all_get_a_change_and_hold_nobody_up(one_process, token):
    pool = PoolFactory()
    names = [TaskGroupFactory(pool=pool, pods=2).workflow.name for _ in range(WORKFLOWS)]
    assert one_process.json(token)[0] == 200
    size, connections = mebibytes(one_process), database_connections()
    with ExitStack() as stack:
        streams = []
        for begin in range(0, WATCHERS, AT_ONCE):
            for at in range(begin, begin + AT_ONCE):
                path = f"/api/workflow/{names[at % WORKFLOWS]}/watch"
                sent = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{token}\r\n\r\n"
                client = stack.enter_context(one_process.connect(sent.encode()))
                streams.append(stack.enter_context(client.makefile("rb")))
            for stream in streams[begin:]:
                read_to(stream, b"event: state")
        TaskGroup.objects.update(waiting_reason="There is no room.")
        for stream in streams:
            read_to(stream, b"There is no room.")
        assert one_process.json(token)[0] == 200
        assert mebibytes(one_process) - size < MIB_OF_ALL
        assert database_connections() - connections <= THREADS + 1
