"""What gunicorn's hooks do for the counts of web's processes, under this worker as under any other."""

import os
import signal
from pathlib import Path

import pytest

from tests.builders.waiting import until
from tests.web.conftest import started_web


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def counts_directory(pid):
    """Where a server keeps the counts of its processes."""
    mapped = [line.split()[-1] for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    return next(Path(name).parent for name in mapped if name.endswith(f"_{pid}.db"))


def counted(server, directory, worker):
    """The counts of a process, once a request has come to it."""
    server.send(path="/api/pool")
    return list(directory.glob(f"counter_{worker}.db"))


@pytest.mark.usefixtures("transactional_db")
def test_the_live_values_of_a_process_end_with_it_and_its_counts_stay(tmp_path, redis_url):
    with started_web(tmp_path, redis_url) as server:
        (worker, *_) = children(server.pid)
        directory = counts_directory(server.pid)
        counts = until(lambda: counted(server, directory, worker))
        live = directory / f"gauge_liveall_{worker}.db"
        live.touch()
        os.kill(worker, signal.SIGKILL)
        until(lambda: worker not in children(server.pid) and len(children(server.pid)) == 2)
        until(lambda: not live.exists())
        assert counts == list(directory.glob(f"counter_{worker}.db"))
        assert server.send(path="/livez")[0] == 200
    assert not directory.exists()
