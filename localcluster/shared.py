"""Servers that several processes share, started by the first that asks for them.

Test workers are separate processes, any of which may be the first to need a database or a cluster,
and none of which outlives the others for certain; a server dies with the process that started it. So
each part is held by a process of its own (``holder``): ``join`` starts it if there is none yet, waits
until it is ready and returns what it says about its servers. It ends when it is told to (SIGTERM)
and when the owner of the directory is gone, kill -9 included.

Light on purpose: every test run imports this, the holders alone import what starts servers.
"""

import fcntl
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Literal, get_args

from localcluster.controlplane import Plane
from localcluster.processes import Process
from localcluster.supervisor import ServerFailed

# in the order of their end: readers before the parts that they read
Part = Literal[
    "service",
    "databases",
    "kueue",
    "standins-0.13",
    "standins-0.17",
    "cluster-0.13",
    "cluster-0.17",
    "workloads",
]
REDIS_DATABASES = 256  # one for each worker of a run
START_SECONDS = 270
STOP_SECONDS = 60
POLL_SECONDS = 0.1


def join(part: Part, *, directory: Path) -> dict[str, Any]:
    """Return what the holder of a part says, starting it if nobody has; raises ServerFailed."""
    with (directory / f"{part}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        state = directory / f"{part}.json"
        if not state.exists():
            _start(part, directory)
    record: dict[str, Any] = json.loads(state.read_text())
    if not Process(**record["process"]).alive():
        raise ServerFailed(f"the servers of {part} have ended; their logs are in {directory / 'logs'}")
    return record


def plane_of(record: dict[str, Any]) -> Plane:
    """The control plane that a holder speaks of."""
    return Plane(directory=Path(record["directory"]), server=record["server"], tokens=record["tokens"])


def end_all(directory: Path) -> None:
    """End every holder of a directory and wait until their servers are gone."""
    states = [directory / f"{part}.json" for part in get_args(Part)]
    holders = [Process(**json.loads(state.read_text())["process"]) for state in states if state.exists()]
    for holder in holders:
        holder.end(seconds=0)
    for holder in holders:
        if not holder.wait(seconds=STOP_SECONDS):
            holder.kill()  # the kernel ends its servers


def _start(part: Part, directory: Path) -> None:
    """Start a holder and wait for its word, or for its end."""
    state = directory / f"{part}.json"
    log = directory / f"{part}.log"
    arguments = [sys.executable, "-m", "localcluster.part_process", part, str(directory)]
    root = Path(__file__).resolve().parent.parent
    environment = os.environ | {"PYTHONPATH": str(root)}
    output = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    # not subprocess: the holder is to outlive this process, and a Popen object would complain
    pid = os.posix_spawn(
        sys.executable,
        arguments,
        environment,
        file_actions=[(os.POSIX_SPAWN_DUP2, output, 1), (os.POSIX_SPAWN_DUP2, output, 2)],
    )
    os.close(output)
    holder = Process.of(pid)
    deadline = time.monotonic() + START_SECONDS
    while not state.exists():
        if not holder.alive():
            raise ServerFailed(f"{part} did not start:\n{log.read_text()}")
        if time.monotonic() > deadline:
            holder.kill()
            raise ServerFailed(f"{part} was not ready after {START_SECONDS} s:\n{log.read_text()}")
        time.sleep(POLL_SECONDS)
