"""``make up`` and ``make down``: the stack in the background, found again through ``.local/run.json``.

``up`` starts one detached process (``serve``), which supervises everything, and returns when the
service is ready. A part that ends by itself is started again (``revival``), and that is said on the terminal
of ``up``. ``down`` tells that process to stop and waits; it stops its children in order. When it was killed
the kernel has ended its children, and ``down`` only clears up. Data, addresses and login stay for the next
``up``; ``clean`` alone removes them.
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from localcluster import build, directories, given_cluster, homes, runfile, scenario, stack, tenant
from localcluster.durations import Steps
from localcluster.lease_watch import LeaseWatch
from localcluster.processes import Process
from localcluster.revival import MOST, Revival
from localcluster.supervisor import ServerFailed, Supervisor

LOG = directories.LOCAL / "logs" / "up.log"
ENDED = directories.LOCAL / "ended.txt"
"""Why everything stopped by itself, until somebody has read it."""
TERMINAL = "LOCALCLUSTER_TERMINAL"
START_SECONDS = 300
STOP_SECONDS = 120
POLL_SECONDS = 0.2


def up(options: stack.Options) -> int:
    """Start the stack unless it runs, and print where it is."""
    if _supervisor_alive():
        if not runfile.PATH.exists():
            print(f"it is being started: {LOG} says how far it is", file=sys.stderr)
            return 1
        print("it runs already; `make down` stops it")
        _print_summary()
        return 0
    _report_earlier_end()
    left = [name for name, process in runfile.processes().items() if not process.wait(seconds=STOP_SECONDS)]
    if left:
        print(f"still running since the supervisor was killed: {', '.join(left)}", file=sys.stderr)
        return 1
    clear()
    if options.kubeconfig:
        given_cluster.check(options.kubeconfig)
    else:
        build.binaries()
    LOG.parent.mkdir(parents=True, exist_ok=True)
    LOG.unlink(missing_ok=True)
    with LOG.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "localcluster", "serve"],
            cwd=directories.CHECKOUT,
            env=os.environ | ({TERMINAL: os.ttyname(1)} if sys.stdout.isatty() else {}),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    if not _follow(process):
        print(
            f"it did not start; the logs are in {LOG.parent}. Where the data are of another version, "
            "`make clean` begins without them",
            file=sys.stderr,
        )
        return 1
    _print_summary()
    return 0


def serve(options: stack.Options) -> int:
    """Supervise the stack until told to stop, or until a part has ended too often."""
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    directory = directories.LOCAL
    directories.own(directory)
    steps = Steps(_progress)
    try:
        with Supervisor(log_dir=LOG.parent) as supervisor:
            running = stack.start(
                supervisor,
                directory=directory,
                options=options,
                durable=True,
                progress=steps,
                prepare=partial(
                    scenario.prepare, places=scenario.ALL_PLACES, supervisor=supervisor, progress=steps
                ),
            )
            if running.plane:
                scenario.configure(running, places=scenario.ALL_PLACES, progress=steps)
                tenant.submit(running.plane)
            else:
                given_cluster.register(running, options, progress=_progress)
            steps.end()
            revival = Revival(supervisor, running.plane, report=_report)
            runfile.write(running, revived=revival.counts)
            leases = LeaseWatch(supervisor, running.plane) if running.plane else None
            while True:
                if revival.check():
                    runfile.write(running, revived=revival.counts)
                if leases:
                    leases.check()
                time.sleep(POLL_SECONDS)
    except ServerFailed as error:
        if not runfile.PATH.exists():
            _progress(str(error))
            return 1
        ENDED.write_text(f"{error}\n")
        _report(str(error))
        return 1
    finally:
        clear()


def down() -> int:
    """Stop what ``up`` started; nothing else is signalled."""
    owner = _owner()
    if owner is None:
        print("nothing runs")
        _report_earlier_end()
        return 0
    processes = runfile.processes()
    if not owner.end(seconds=STOP_SECONDS):
        print(f"the supervisor ({owner.pid}) did not stop in {STOP_SECONDS} s: killed", file=sys.stderr)
        owner.kill()
    left = [name for name, process in processes.items() if not process.wait(seconds=10)]
    clear()
    if left:
        print(f"still running: {', '.join(left)}", file=sys.stderr)
        return 1
    print("stopped")
    return 0


def clean(*, forget: bool) -> int:
    """Stop what runs and remove all its data; runs of tests and demos keep their directories."""
    if status := down():
        return status
    foreign = directories.LOCAL / stack.FOREIGN_CLUSTERS
    if foreign.exists() and not forget:
        print(
            f"the data say what was created in the clusters of {', '.join(json.loads(foreign.read_text()))}: "
            "delete the workflows, pools and backends of those first, or leave them there; then --forget "
            "(make clean FORGET=1)",
            file=sys.stderr,
        )
        return 1
    homes.remove_lasting(directories.LOCAL / "databases")
    for path in directories.LOCAL.glob("*"):
        if path.is_file():
            path.unlink()
        elif path.name != "failed" and not (path / directories.OWNER).exists():
            shutil.rmtree(path)
    print("all data are removed")
    return 0


def clear() -> None:
    """Remove what only makes sense while the stack runs."""
    runfile.PATH.unlink(missing_ok=True)
    (directories.LOCAL / directories.OWNER).unlink(missing_ok=True)


def _report_earlier_end() -> None:
    if ENDED.exists():
        print(f"it stopped by itself: {ENDED.read_text()}", file=sys.stderr)
        ENDED.unlink()


def _follow(process: subprocess.Popen[bytes]) -> bool:
    """Print the log of the start until it is done; whether it is."""
    deadline = time.monotonic() + START_SECONDS
    with LOG.open() as log:
        while True:
            done, ended = runfile.PATH.exists(), process.poll() is not None
            shutil.copyfileobj(log, sys.stdout)
            sys.stdout.flush()
            if done or ended:
                return done and not ended
            if time.monotonic() > deadline:
                process.terminate()
                return False
            time.sleep(POLL_SECONDS)


def _print_summary() -> None:
    run: dict[str, Any] | None = runfile.read()
    assert run is not None
    example = "examples/use-case-1.yaml"
    pool = scenario.FIRST_POOL if Path(run["kubeconfig"]).is_relative_to(directories.LOCAL) else "POOL"
    print(
        f"""
pages        {run["api_url"]}/ui/   {run["admin_user"]} / {run["admin_password"]}
admin        {run["admin_url"]}   the same
API          {run["api_url"]}   ({run["api_url"]}/api/docs once you are logged in)
kubeconfig   {run["kubeconfig"]}
logs         {run["logs"]}
all of it    {runfile.PATH}

for this machine only: whoever sends the header `x-osmo-user: admin` from it is administrator without a token

use it from a shell:
  export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH
  export OSMO_URL={run["api_url"]}
  export OSMO_TOKEN={run["token"]}
  osmo-topology submit {example} --pool {pool}

the same without the command:
  {scenario.curl(api_url=run["api_url"], token=run["token"], pool=pool, file=example)}

stop it with `make down`; data, addresses and login stay for the next `make up`, `make clean` removes them"""
    )
    for name, count in run["revived"].items():
        print(f"{name} ended by itself and was started again: {count} of at most {MOST} times")


def _supervisor_alive() -> bool:
    owner = _owner()
    return owner is not None and owner.alive()


def _owner() -> Process | None:
    path = directories.LOCAL / directories.OWNER
    return Process(**json.loads(path.read_text())["process"]) if path.exists() else None


def _progress(text: str) -> None:
    print(f"[local cluster] {text}", flush=True)


def _report(text: str) -> None:
    """Say it in the log and on the terminal of ``make up``, where there still is one."""
    _progress(text)
    with suppress(KeyError, OSError):
        # somebody else's terminal must not become this session's, nor hold it up
        terminal = os.open(os.environ[TERMINAL], os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
        try:
            os.write(terminal, f"\r\n[local cluster] {text}\r\n".encode())
        finally:
            os.close(terminal)


def _leave(*_: object) -> None:
    raise SystemExit(0)
