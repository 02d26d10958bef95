"""The service's processes, as the local cluster runs them: one table.

Commands and variables are those of ``docker-compose.yml``; nothing of the product is imported, it
is run. Every process gets the same environment, made from nothing, so that no exported variable
points it at somebody's server.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from localcluster.directories import CHECKOUT
from localcluster.ports import LOOPBACK
from localcluster.supervisor import Command, ServerFailed, clean_environment

ONE_OFF_SECONDS = 240
STOP_SECONDS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the processes are told."""

    database_url: str
    redis_url: str
    secret_key: str
    port: int
    pod_logs: Path
    kubeconfigs: Sequence[Path] = ()  # of the caller's own, and the files that they name
    more: Mapping[str, str] = field(default_factory=dict)  # variables of the product, over those below
    metrics_token: str = ""
    metrics_ports: Mapping[str, int] = field(default_factory=dict)  # of worker, beat and observer

    @property
    def api_url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def metrics_urls(self) -> dict[str, str]:
        """Where each process shows its metrics."""
        own = {name: f"http://{LOOPBACK}:{port}/metrics" for name, port in self.metrics_ports.items()}
        return {"web": f"{self.api_url}/metrics", **own}

    @property
    def processes(self) -> Path:
        """Where each process has a working directory of its own: a kubeconfig may name a file in it."""
        return self.pod_logs.parent / "processes"

    def environment(self, process: str = "") -> dict[str, str]:
        """What a process is told."""
        return {
            "DJANGO_SETTINGS_MODULE": "osmo_topology.settings",
            "OSMO_ADDRESS_SUBMITS_PER_MINUTE": "0",  # whoever runs it may submit as fast as they like
            "OSMO_DATABASE_URL": self.database_url,
            "OSMO_ENV": "development",
            "OSMO_KUBECONFIG_PATHS": json.dumps([str(self.pod_logs.parent), *map(str, self.kubeconfigs)]),
            "OSMO_LOG_STORE": self.pod_logs.as_uri(),
            "OSMO_METRICS_PORT": str(self.metrics_ports.get(process, 0)),
            "OSMO_METRICS_TOKEN": self.metrics_token,
            "OSMO_POD_LABEL_DOMAINS": '["sim.osmo.local"]',  # by which a workflow directs its simulated pods
            "OSMO_REDIS_URL": self.redis_url,
            "OSMO_SECRET_KEY": self.secret_key,
            "OSMO_SERVICE_URL": self.api_url,
            "OSMO_SUBMITS_PER_MINUTE": "0",
            "PYTHONPATH": str(CHECKOUT),
            "PYTHONUNBUFFERED": "1",
        } | dict(self.more)


def commands(settings: Settings) -> dict[str, Command]:
    """Web, worker, beat and observer, in the order of their start."""
    celery = ["-m", "celery", "--app", "osmo_topology.celery"]
    # more than one observer would share the clusters between them, one is enough here
    table = {
        "web": [
            "-m", "gunicorn", "--config", "python:web.server.webserver", "osmo_topology.asgi",
            "--bind", f"{LOOPBACK}:{settings.port}",
            "--workers", "2",
            "--worker-tmp-dir", tempfile.gettempdir(),
        ],
        "worker": [*celery, "worker", "--pool", "threads", "--concurrency", "8"],
        "beat": [*celery, "beat", "--pidfile", ""],
        "observer": [str(CHECKOUT / "manage.py"), "observe"],
    }  # fmt: skip
    for name in table:
        (settings.processes / name).mkdir(parents=True, exist_ok=True, mode=0o700)
    return {
        name: Command(
            name=name,
            argv=[sys.executable, *arguments],
            env=settings.environment(name),
            cwd=settings.processes / name,
            stop_seconds=STOP_SECONDS,
        )
        for name, arguments in table.items()
    }


RUN_COMMANDS = """
import json, sys
from django.core.management import execute_from_command_line
for command in json.loads(sys.argv[1]):
    execute_from_command_line(["manage.py", *command, "--skip-checks"])  # they would load every page
"""


class OneOff:
    """Management commands in one process that ends by itself, running beside whatever else starts."""

    def __init__(
        self, settings: Settings, *commands: Sequence[str], env: Mapping[str, str] | None = None
    ) -> None:
        self.name = f"manage.py {', '.join(command[0] for command in commands)}"
        self._process = subprocess.Popen(
            [sys.executable, "-c", RUN_COMMANDS, json.dumps(commands)],
            cwd=CHECKOUT,
            env=clean_environment() | settings.environment() | dict(env or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def result(self) -> str:
        """Wait for it and return what it printed; raises ServerFailed with its errors."""
        try:
            printed, errors = self._process.communicate(timeout=ONE_OFF_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        if self._process.returncode != 0:
            raise ServerFailed(f"{self.name} failed:\n{errors}{printed}")
        return printed.strip()
