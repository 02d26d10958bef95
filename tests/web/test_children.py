"""The processes that web starts for expensive documents: they answer, and none outlives web."""

import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.api.workflows.specs import gang, text
from tests.builders.waiting import until
from tests.factories import PoolFactory
from tests.web.conftest import started_web

LARGE = text(gang()) + "#" * 20_000
TEMPLATE = text(gang(name="b{{ 3 * 3 }}"))
LOOP = "{% for a in range(9999) %}"
BURNING = text(gang()) + f"# {LOOP * 3}{'{% endfor %}' * 3}\n"
PATIENT = """
from dataclasses import replace
from workflows.spec import template
template.BOUNDS = replace(template.BOUNDS, cpu_seconds=100, seconds=100.0)
"""
ADDRESS = "/api/pool/train/workflow?validation_only=true"


def children(pid):
    """The processes that a process has started, in whichever of its threads."""
    started = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            started += [int(child) for child in file.read_text().split()]
    return started


def family(pid):
    return {pid}.union(*map(family, children(pid)))


def is_fork_server(pid):
    with suppress(OSError):
        return "fork_server" in Path(f"/proc/{pid}/cmdline").read_text()
    return False


def is_alive(pid):
    with suppress(OSError):
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False


def request(token, document):
    body = json.dumps({"file": document}).encode()
    return (token, "Content-Type: application/json", f"Content-Length: {len(body)}"), body


@pytest.fixture
def pool(transactional_db):
    return PoolFactory(name="train")


def test_expensive_documents_are_read_and_nothing_stays_when_web_ends(pool, token, tmp_path, redis_url):
    with started_web(tmp_path, redis_url, constants=PATIENT) as server:
        for document in (LARGE, TEMPLATE):
            headers, body = request(token, document)
            status, answer = server.json(*headers, body=body, method="POST", path=ADDRESS)
            assert status == 200, answer
        processes = family(server.pid)
        assert any(map(is_fork_server, processes))
    until(lambda: not any(map(is_alive, processes)))


def test_a_process_of_web_that_is_killed_takes_those_at_work_for_it_along(pool, token, tmp_path, redis_url):
    def at_work():
        """A process of web, and a process that works for it: both as a family."""
        for worker in children(server.pid):
            if any(is_fork_server(child) and children(child) for child in children(worker)):
                return worker, family(worker)
        return None

    with started_web(tmp_path, redis_url, constants=PATIENT) as server:
        headers, body = request(token, BURNING)
        head = [f"POST {ADDRESS} HTTP/1.1", "Host: 127.0.0.1", *headers, "", ""]
        with server.connect("\r\n".join(head).encode() + body):
            worker, processes = until(at_work)
            os.kill(worker, signal.SIGKILL)
            until(lambda: not any(map(is_alive, processes)))
        assert server.send(path="/livez")[0] == 200
