"""Servers that several processes share, started by the first that asks for them.

Test workers are separate processes, any of which may be the first to need a database or a cluster,
and none of which outlives the others for certain; a server dies with the process that started it. So
each part is held by a process of its own: ``join`` starts that holder if there is none yet, waits
until it is ready and returns what it says about its servers. A holder ends when it is told to
(SIGTERM) and when the owner of the directory is gone, kill -9 included.

Run as ``python -m localcluster.holder PART DIRECTORY``.
"""

import fcntl
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Literal, cast, get_args

from localcluster import build, controlplane, servers
from localcluster.directories import OWNER, note_home
from localcluster.processes import Process
from localcluster.standins.commands import commands
from localcluster.supervisor import ServerFailed, Supervisor

Part = Literal["databases", "standins-0.13", "standins-0.17", "cluster-0.13", "cluster-0.17"]
START_SECONDS = 120
STOP_SECONDS = 60
POLL_SECONDS = 0.1


def join(part: Part, *, directory: Path) -> dict[str, Any]:
    """Return what the holder of a part says, starting it if nobody has; raises ServerFailed."""
    with (directory / f"{part}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        state = directory / f"{part}.json"
        if not state.exists():
            _start(part, directory)
    said: dict[str, Any] = json.loads(state.read_text())
    if not Process(**said["process"]).alive():
        raise ServerFailed(f"the servers of {part} have ended; their logs are in {directory / 'logs'}")
    return said


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
    arguments = [sys.executable, "-m", "localcluster.holder", part, str(directory)]
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


def hold(part: Part, *, directory: Path) -> None:
    """Start the servers of a part, say so, and keep them until told to end or the owner is gone."""
    owner = Process(**json.loads((directory / OWNER).read_text())["process"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the owner, who then ends us
    signal.signal(signal.SIGTERM, _leave)
    home = None
    try:
        with Supervisor(log_dir=directory / "logs") as supervisor:
            if part == "databases":
                home = servers.Home.make(directory / "databases")
                note_home(directory, home.data)
                said: dict[str, Any] = _databases(supervisor, home)
            elif part.startswith("standins"):
                said = _standins(supervisor, directory, part)
            else:
                said = _cluster(supervisor, directory, part)
            me = Process.of(os.getpid())
            _write(directory / f"{part}.json", said | {"process": {"pid": me.pid, "started": me.started}})
            while owner.alive():
                supervisor.check()
                time.sleep(POLL_SECONDS)
    finally:
        if home:
            home.remove()


def _databases(supervisor: Supervisor, home: servers.Home) -> dict[str, Any]:
    return {
        "database_url": servers.start_postgres(supervisor, home, durable=False),
        "redis_url": servers.start_redis(supervisor, home),
    }


def _cluster(supervisor: Supervisor, directory: Path, part: Part) -> dict[str, Any]:
    plane = controlplane.start(
        supervisor,
        directory=directory / part,
        binaries=build.binaries(),
        kai_version="0.17" if part == "cluster-0.17" else "0.13",
    )
    return {"directory": str(plane.directory), "server": plane.server, "tokens": plane.tokens}


def _standins(supervisor: Supervisor, directory: Path, part: Part) -> dict[str, Any]:
    """The stand-ins on the cluster of the same version, which is started if nobody has."""
    newer = part == "standins-0.17"
    plane = plane_of(join("cluster-0.17" if newer else "cluster-0.13", directory=directory))
    for command in commands(plane, kai_version="0.17" if newer else "0.13"):
        supervisor.start(command)
    return {}


def plane_of(said: dict[str, Any]) -> controlplane.Plane:
    """The control plane that a holder speaks of."""
    return controlplane.Plane(directory=Path(said["directory"]), server=said["server"], tokens=said["tokens"])


def _write(path: Path, content: dict[str, Any]) -> None:
    unfinished = path.with_suffix(".unfinished")
    unfinished.touch(mode=0o600)
    unfinished.write_text(json.dumps(content))
    unfinished.rename(path)


def _leave(*_: object) -> None:
    raise SystemExit(0)


def main() -> int:
    part, directory = sys.argv[1:]
    assert part in get_args(Part), part
    os.setsid()
    try:
        hold(cast("Part", part), directory=Path(directory))
    except ServerFailed:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
