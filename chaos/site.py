"""The stack under test: everything that ``localcluster`` starts, a fault proxy, and a status log.

Its directory, servers and ports are this run's own. Databases are durable here although the tests' are not:
a server that is killed must keep what it acknowledged, or the harness would blame the service.
"""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from chaos import statuslog
from chaos.proxy import Proxy
from localcluster import scenario, stack
from localcluster.api import Api
from localcluster.controlplane import Plane
from localcluster.directories import run_directory
from localcluster.rest import Rest
from localcluster.supervisor import Supervisor

SKEW = Path(__file__).with_name("skew")
START = "1m"  # longest start of a pod: one whose ComputeDomain was removed before it started never does
OWNED = "owned"
"""The pool whose queue of Kueue the service makes."""
SERVICE = ("web", "worker", "beat", "observer")

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Site:
    """A running stack with its clients; ``api`` goes past the proxy."""

    running: stack.Running
    plane: Plane
    api: Api
    proxy: Proxy
    points: Path  # where crash points are armed

    @property
    def supervisor(self) -> Supervisor:
        return self.running.supervisor

    @property
    def directory(self) -> Path:
        return self.running.directory

    @property
    def database_url(self) -> str:
        return self.running.settings.database_url

    @property
    def redis_url(self) -> str:
        return self.running.settings.redis_url

    def rest(self) -> Rest:
        """A client of the service, one for each thread."""
        return Rest(api_url=self.running.api_url, token=self.running.token)

    def skew(self, name: str, seconds: float) -> None:
        """Start a process of the service again with another idea of what time it is."""
        command = self.supervisor.stop_one(name)
        path = f"{SKEW}:{command.env['PYTHONPATH']}"
        env = {**command.env, "CHAOS_SKEW_SECONDS": str(seconds), "PYTHONPATH": path}
        self.supervisor.start(replace(command, env=env))

    def hasten(self) -> None:
        """Have a worker in the place of the first that is replaced at once when it dies."""
        command = self.supervisor.stop_one("worker")
        arguments = command.argv[command.argv.index("worker") :]
        argv = [
            sys.executable,
            "-m",
            "chaos.forking_worker",
            *arguments,
            "--without-mingle",
            "--without-gossip",
        ]
        self.supervisor.start(replace(command, argv=argv))

    def add_observer(self, name: str) -> None:
        """One more observer beside the first; it stands by, and follows when the other one is gone."""
        command = self.supervisor.find("observer").command
        self.supervisor.start(replace(command, name=name, env={**command.env, "OSMO_METRICS_PORT": "0"}))

    def add_worker(self, name: str) -> None:
        """One more worker beside the first."""
        command = self.supervisor.find("worker").command
        self.supervisor.start(replace(command, name=name, argv=[*command.argv, "--hostname", f"{name}@%h"]))


@contextmanager
def started_site(*, seed: str, progress: Progress) -> Iterator[Site]:
    """Start everything; at the end, however it comes, everything is stopped and its files are gone."""
    with run_directory("chaos") as directory, Supervisor(log_dir=directory / "logs") as supervisor:
        points = directory / "crash-points"
        points.mkdir(mode=0o700)
        running = stack.start(
            supervisor,
            directory=directory,
            options=stack.Options(),
            durable=True,
            progress=progress,
            more={"OSMO_CRASH_POINTS": str(points)},
            prepare=partial(scenario.prepare, supervisor=supervisor, progress=progress),
        )
        plane = running.plane
        assert plane is not None
        proxy = Proxy(plane, seed=seed)
        proxy.start()
        running = replace(running, kubeconfig=proxy.kubeconfig(directory / "proxied.kubeconfig"))
        scenario.configure(running, progress=progress)
        client = Rest(api_url=running.api_url, token=running.token)
        _add_owned(client)
        client.call("PATCH", "/api/configs/workflow", {"configs_dict": {"max_pod_restart_limit": START}})
        statuslog.install(running.settings.database_url)
        api = Api(plane.access(), connections=16)
        signal.signal(signal.SIGTERM, _leave)
        try:
            yield Site(running, plane, api, proxy, points)
        finally:
            api.close()
            proxy.stop()
            # asked to end, it would wait for the watches of those that are stopped after it
            supervisor.stop_one("kube-apiserver", with_signal=signal.SIGKILL)


def queue_settings(backend: str) -> dict[str, object]:
    """The settings of a backend for queues: whoever writes it anew must leave the own queues on."""
    own = {"own_queues": True} if backend == scenario.QUEUED else {}
    return {**scenario.QUEUE_SETTINGS, **own}


def _add_owned(client: Rest) -> None:
    """A second pool on Kueue and on the same nodes, with a queue that the service makes."""
    path = f"/api/configs/backend/{scenario.QUEUED}"
    settings = queue_settings(scenario.QUEUED)
    client.put(path, {"configs": {**client.get(path), "queue_settings": settings}})
    place = replace(scenario.PLACES[scenario.QUEUED], more={})
    client.put(f"/api/configs/pool/{OWNED}", {"configs": scenario.pool(scenario.QUEUED, place)})


def _leave(*_: object) -> None:
    raise SystemExit(1)
