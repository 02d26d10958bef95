"""Jobs in processes of their own: what they may take, and that nothing of them stays."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from localcluster.directories import CHECKOUT
from scheduling.errors import Unavailable
from tests.builders.waiting import until
from tests.unit.web import child_jobs
from web.children import Children, Exceeded, JobBounds

BOUNDS = JobBounds(cpu_seconds=30, seconds=300.0, memory=64 * 2**20, answer=8 * 2**20)
SECONDS = 300


@pytest.fixture
def children():
    made = Children()
    yield made
    made.close()


def is_alive(pid):
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def children_of(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return []


def test_each_job_has_a_process_of_its_own_that_is_gone_after_it(children):
    pids = {int(bytes(children.run(child_jobs.own_process, b"", BOUNDS))) for _ in range(3)}
    assert len(pids) == 3
    until(lambda: not any(is_alive(pid) for pid in pids))
    assert children_of(children.pid) == []


def test_bytes_go_in_and_come_out_as_they_are(children):
    payload = bytes(range(256)) * 20_000
    with ThreadPoolExecutor(4) as threads:
        answers = threads.map(lambda _: children.run(child_jobs.echo, payload, BOUNDS), range(8))
        assert [bytes(answer) for answer in answers] == [payload] * 8


EXCEEDED = {
    "CPU": (child_jobs.burn, b"", {"cpu_seconds": 1}, "it needs over 1 s of CPU"),
    "time": (child_jobs.burn, b"", {"seconds": 0.5}, "it takes longer than 0.5 s"),
    "memory": (child_jobs.take_memory, b"%d" % 2**28, {}, "it needs over 64 MiB of memory"),
    "answer": (child_jobs.fill, b"2000000", {"answer": 1_000_000}, "it gives over 1000000 bytes"),
    "a crash": (child_jobs.crash, b"", {}, "its process was ended by signal 6"),
}


@pytest.mark.parametrize("bound", EXCEEDED)
def test_a_job_that_meets_a_bound_is_ended_and_the_bound_is_named(bound, children):
    job, payload, bounds, want = EXCEEDED[bound]
    with pytest.raises(Exceeded, match=want):
        children.run(job, payload, replace(BOUNDS, **bounds))
    until(lambda: children_of(children.pid) == [])
    assert bytes(children.run(child_jobs.echo, b"next", BOUNDS)) == b"next"


def test_an_error_of_a_job_is_raised_with_its_trace(children):
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        children.run(child_jobs.fail, b"", BOUNDS)


def test_a_job_finds_no_variables_no_sockets_of_others_and_no_framework(children, monkeypatch):
    monkeypatch.setenv("OSMO_SECRET_KEY", "secret")
    answer = bytes(children.run(child_jobs.surroundings, b"", BOUNDS))
    assert answer == b"([], 1, (0, 0), False)"


def test_a_server_that_ended_is_started_again(children):
    children.run(child_jobs.echo, b"", BOUNDS)
    first = children.pid
    os.kill(first, signal.SIGKILL)
    until(lambda: not is_alive(first))
    assert bytes(children.run(child_jobs.echo, b"again", BOUNDS)) == b"again"
    assert children.pid != first


def test_a_job_is_done_although_its_server_was_killed(children):
    children.run(child_jobs.echo, b"", BOUNDS)
    server = children.pid
    with ThreadPoolExecutor(1) as threads:
        job = threads.submit(children.run, child_jobs.burn, b"", replace(BOUNDS, cpu_seconds=1))
        until(lambda: children_of(server))
        os.kill(server, signal.SIGKILL)
        with pytest.raises(Exceeded, match="it needs over 1 s of CPU"):
            job.result(SECONDS)
    assert children.pid != server


def test_a_server_that_cannot_start_is_said_to_be_unavailable(children, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(Unavailable):
        children.run(child_jobs.echo, b"", BOUNDS)


CALLER = """
import sys
from tests.unit.web import child_jobs
from tests.unit.web.test_children import BOUNDS
from web.children import children
children().run(child_jobs.echo, b"", BOUNDS)
print(children().pid, flush=True)
children().run(child_jobs.burn, b"", BOUNDS)
"""


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_stays_of_a_caller_that_ends(ending):
    with subprocess.Popen([sys.executable, "-c", CALLER], stdout=subprocess.PIPE, cwd=CHECKOUT) as caller:
        server = int(caller.stdout.readline())
        until(lambda: children_of(server))
        (child,) = children_of(server)
        caller.send_signal(ending)
    until(lambda: not is_alive(server) and not is_alive(child))
