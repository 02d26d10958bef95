"""Servers are started in order, watched, and never survive their supervisor."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from localcluster.directories import CHECKOUT
from localcluster.processes import Process
from localcluster.supervisor import Command, ServerFailed, Supervisor
from tests.builders.waiting import until

LIMIT_SECONDS = 90


@pytest.fixture
def supervisor(tmp_path):
    with Supervisor(log_dir=tmp_path / "logs") as supervisor:
        yield supervisor


def python(name, code, **more):
    return Command(name=name, argv=[sys.executable, "-c", code], **more)


def sleeper(name, **more):
    return python(name, "import time; time.sleep(600)", **more)


def test_a_server_that_ends_by_itself_is_named_with_the_end_of_its_log(supervisor):
    child = supervisor.start(python("fragile", "print('the disk is full'); raise SystemExit(7)"))
    with pytest.raises(ServerFailed, match=r"fragile ended with exit code 7(?s:.*)the disk is full"):
        supervisor.wait_ready(child, lambda: "never", seconds=LIMIT_SECONDS)


def test_a_server_that_was_killed_is_noticed_later_too(supervisor):
    child = supervisor.start(sleeper("victim"))
    supervisor.check()
    os.kill(child.pid, signal.SIGKILL)
    until(lambda: child.ending() is not None)
    with pytest.raises(ServerFailed, match="victim ended with SIGKILL"):
        supervisor.check()


def test_a_server_that_is_never_ready_is_an_error_that_says_what_is_missing(supervisor):
    child = supervisor.start(sleeper("slow"))
    with pytest.raises(ServerFailed, match=r"slow was not ready after 0 s \(no port yet\)"):
        supervisor.wait_ready(child, lambda: "no port yet", seconds=0)


def test_servers_stop_in_the_reverse_order_of_their_start(tmp_path):
    note = (
        "import signal, sys, time\n"
        "signal.signal(15, lambda *_: (print(time.monotonic_ns(), flush=True), sys.exit()))\n"
    )
    with Supervisor(log_dir=tmp_path) as supervisor:
        for name in ("first", "second", "third"):
            supervisor.start(python(name, f"{note}print('up', flush=True)\ntime.sleep(600)"))
        until(lambda: all("up" in log.read_text() for log in tmp_path.iterdir()))
    stopped = {
        name: int((tmp_path / f"{name}.log").read_text().split()[-1]) for name in ("first", "second", "third")
    }
    assert sorted(stopped, key=stopped.get) == ["third", "second", "first"]


def test_a_server_that_ignores_the_request_is_killed_with_its_workers(tmp_path, capsys):
    stubborn = (
        "import os, signal, time\nsignal.signal(15, signal.SIG_IGN)\npid = os.fork()\n"
        "print('worker', pid, flush=True) if pid else None\ntime.sleep(600)"
    )
    log = tmp_path / "stubborn.log"
    with Supervisor(log_dir=tmp_path) as supervisor:
        supervisor.start(python("stubborn", stubborn, stop_seconds=0.2))
        until(lambda: "worker" in log.read_text())
    worker = int(log.read_text().split()[1])
    until(lambda: not Path(f"/proc/{worker}").exists() or "Z" in Path(f"/proc/{worker}/stat").read_text())
    assert "stubborn did not stop" in capsys.readouterr().err


def test_nothing_survives_a_supervisor_that_was_killed(tmp_path):
    code = f"""
import json, sys, time
from pathlib import Path
from localcluster.supervisor import Command, Supervisor
supervisor = Supervisor(log_dir=Path({str(tmp_path)!r}))
server = "import time; print('up', flush=True); time.sleep(600)"
child = supervisor.start(Command(name="server", argv=[sys.executable, "-c", server]))
print(json.dumps(child.pid), flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=CHECKOUT, stdout=subprocess.PIPE) as parent:
        server = Process.of(json.loads(parent.stdout.readline()))
        until(lambda: "up" in (tmp_path / "server.log").read_text())
        parent.kill()
    until(lambda: not server.alive())


def test_servers_do_not_inherit_variables_that_point_at_other_servers(supervisor, tmp_path, monkeypatch):
    for name in ("KUBECONFIG", "DATABASE_URL", "PGHOST"):
        monkeypatch.setenv(name, "somebody's")
    child = supervisor.start(python("curious", "import os; print(sorted(os.environ), flush=True)"))
    until(lambda: child.ending() is not None)
    assert "KUBECONFIG" not in child.log.read_text()
    assert "DATABASE_URL" not in child.log.read_text()
    assert "PGHOST" not in child.log.read_text()


def test_a_process_with_the_same_pid_that_started_at_another_time_is_not_the_one_noted():
    me = Process.of(os.getpid())
    assert me.alive()
    another = Process(pid=me.pid, started=me.started + "1")
    assert not another.alive()
    assert another.end(seconds=0)  # and this test goes on: nobody was signalled


def test_a_killed_server_is_started_again_in_its_place_when_asked(tmp_path):
    with Supervisor(log_dir=tmp_path) as supervisor:
        for name in ("first", "second", "third"):
            supervisor.start(python(name, "import time; time.sleep(600)"))
        old = supervisor.find("second").pid
        supervisor.kill("second")
        until(lambda: supervisor.find("second").ending() == "SIGKILL")
        new = supervisor.restart("second")
        assert new.pid != old
        assert [child.command.name for child in supervisor.children] == ["first", "second", "third"]
        supervisor.check()
