"""``make up`` and ``make down``: the stack in the background, found again through ``.local/run.json``.

``up`` starts one detached process (``serve``), which supervises everything, and returns when the
service is ready. ``down`` tells that process to stop and waits; it stops its children in order. When
it was killed the kernel has ended its children, and ``down`` only clears up. Data stays in
``.local/`` for the next ``up``, except as root: then the databases' home under /var/tmp goes, and the
cluster's data with it.
"""

import json
import shlex
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from localcluster import build, directories, given_cluster, homes, runfile, scenario, stack
from localcluster.lease_watch import LeaseWatch
from localcluster.processes import Process
from localcluster.supervisor import ServerFailed, Supervisor

LOG = directories.LOCAL / "logs" / "up.log"
START_SECONDS = 300
STOP_SECONDS = 120
POLL_SECONDS = 0.2


def up(options: stack.Options) -> int:
    """Start the stack unless it runs, and print where it is."""
    if _supervisor_alive():
        print("it runs already; `make down` stops it")
        _print_summary()
        return 0
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
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    if not _follow(process):
        print(f"it did not start; the logs are in {LOG.parent}", file=sys.stderr)
        return 1
    _print_summary()
    return 0


def serve(options: stack.Options) -> int:
    """Supervise the stack until told to stop; one server that ends by itself ends all."""
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    directory = directories.LOCAL
    directories.own(directory)
    try:
        with Supervisor(log_dir=LOG.parent) as supervisor:
            running = stack.start(
                supervisor,
                directory=directory,
                options=options,
                durable=True,
                progress=_progress,
                prepare=partial(
                    scenario.prepare,
                    places=scenario.ALL_PLACES,
                    supervisor=supervisor,
                    progress=_progress,
                ),
            )
            if running.plane:
                scenario.configure(running, places=scenario.ALL_PLACES, progress=_progress)
            else:
                given_cluster.register(running, options, progress=_progress)
            runfile.write(running)
            leases = LeaseWatch(supervisor, running.plane) if running.plane else None
            while True:
                supervisor.check()
                if leases:
                    leases.check()
                time.sleep(POLL_SECONDS)
    except ServerFailed as error:
        print(error, flush=True)
        return 1
    finally:
        clear()


def down() -> int:
    """Stop what ``up`` started; nothing else is signalled."""
    owner = _owner()
    if owner is None:
        print("nothing runs")
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


def clear() -> None:
    """Remove what only makes sense while the stack runs, and the homes outside the checkout."""
    path = directories.LOCAL / directories.OWNER
    noted = json.loads(path.read_text())["homes"] if path.exists() else []
    for home in map(Path, noted):
        stack.drop_state(directories.LOCAL)
        if home.exists():
            homes.remove_home(home)
    runfile.PATH.unlink(missing_ok=True)
    path.unlink(missing_ok=True)


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

stop it with `make down`"""
    )


def _supervisor_alive() -> bool:
    owner = _owner()
    return owner is not None and owner.alive()


def _owner() -> Process | None:
    path = directories.LOCAL / directories.OWNER
    return Process(**json.loads(path.read_text())["process"]) if path.exists() else None


def _progress(text: str) -> None:
    print(f"[local cluster] {text}", flush=True)


def _leave(*_: object) -> None:
    raise SystemExit(0)
