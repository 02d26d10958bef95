"""Everything that ``make up``, the demo and the bench start: servers, cluster, stand-ins, service.

Order: PostgreSQL and Redis, then the migrations beside the control plane, the stand-ins, then web,
worker, beat and observer. All are children of the one supervisor that is handed in.

``Options`` names servers of the caller's own. Only ``make up`` passes it: the demo, the tests and the
bench touch no server that they did not start. With a kubeconfig given, no local cluster and no stand-in is
started.
"""

import json
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Self

import urllib3
import yaml

from localcluster import controlplane, servers, service
from localcluster.build import binaries
from localcluster.crds import kai
from localcluster.directories import note_home, write_secret
from localcluster.ports import free_ports, lasting_ports
from localcluster.rest import Refused, Rest
from localcluster.standins.commands import EVICTION_FLAG
from localcluster.standins.commands import commands as standin_commands
from localcluster.supervisor import Child, Supervisor

ADMIN = "admin"
READY_SECONDS = 150
MIGRATE = ("migrate", "--noinput", "--verbosity", "0")
MAKE_TOKEN = ("make_token", ADMIN, "--admin", "--name", "local")
FOREIGN_CLUSTERS = "foreign-clusters.json"
NAMED_FILES = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


class GivenUnusable(Exception):
    """A server of the caller's own cannot be used as it is named; the message is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Servers of the caller's own; empty means that one is started."""

    database_url: str = ""
    redis_url: str = ""
    kubeconfig: Path | None = None
    backend_scheduler: str = "kai"
    backend_namespace: str = "osmo"

    @classmethod
    def from_environment(cls) -> Self:
        """Read the variables that ``make up`` passes on; their secrets stay out of process lists.

        A path that starts with ``~`` is the caller's home: make hands it on as it was written.
        """
        kubeconfig = os.environ.get("CLUSTER_KUBECONFIG", "")
        return cls(
            database_url=os.environ.get("OSMO_DATABASE_URL", ""),
            redis_url=os.environ.get("OSMO_REDIS_URL", ""),
            kubeconfig=Path(kubeconfig).expanduser().resolve() if kubeconfig else None,
            backend_scheduler=os.environ.get("BACKEND_SCHEDULER") or "kai",
            backend_namespace=os.environ.get("BACKEND_NAMESPACE") or "osmo",
        )

    def names(self) -> list[str]:
        """The variables that name servers."""
        named = {
            "OSMO_DATABASE_URL": self.database_url,
            "OSMO_REDIS_URL": self.redis_url,
            "CLUSTER_KUBECONFIG": self.kubeconfig,
        }
        return [name for name, value in named.items() if value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A running stack: where everything is and how to get in."""

    directory: Path
    home: Path | None  # of the databases that were started here
    supervisor: Supervisor
    settings: service.Settings
    kubeconfig: Path
    plane: controlplane.Plane | None  # None: the cluster is the caller's
    admin_password: str
    token: str  # of ADMIN, who is staff

    @property
    def api_url(self) -> str:
        return self.settings.api_url

    def restart(self, name: str) -> None:
        """Start a process again that was stopped with ``supervisor.stop_one``."""
        self.supervisor.start(service.commands(self.settings)[name])


def start(
    supervisor: Supervisor,
    *,
    directory: Path,
    options: Options,
    durable: bool,
    progress: Callable[[str], None],
    kai_version: kai.Version = "0.13",
    standins: bool = True,
    more: Mapping[str, str] | None = None,
    prepare: Callable[[controlplane.Plane], None] | None = None,
) -> Running:
    """Start everything and wait until the service says that it is ready; ``more`` are its variables.

    ``durable`` is for what lasts: data that the next start finds again, under the same addresses and with
    the same login. ``prepare`` acts on the local cluster while the service starts.
    """
    programs = None if options.kubeconfig else binaries()
    home, database_url, redis_url = _databases(
        supervisor, directory, options, durable=durable, progress=progress
    )
    names = ("web", "worker", "beat", "observer")
    port, *metrics = lasting_ports(directory / "ports.json", *names) if durable else free_ports(len(names))
    settings = service.Settings(
        database_url=database_url,
        redis_url=redis_url,
        secret_key=_kept_secret(directory / "secret_key"),
        port=port,
        pod_logs=directory / "pod-logs",
        kubeconfigs=_foreign_files(directory, options),
        more=more or {},
        metrics_token=_kept_secret(directory / "metrics_token"),
        metrics_ports=dict(zip(names[1:], metrics, strict=True)),
    )
    password = _kept_secret(directory / "admin_password")
    token = directory / "token"
    commands = [MIGRATE] if token.exists() else [MIGRATE, MAKE_TOKEN]
    login = {"OSMO_ADMIN_PASSWORD": password}
    migrated = service.OneOff(settings, *commands, env=login)
    plane = None
    if programs:
        progress("starting etcd, the API server, the scheduler, the controller manager and kwok")
        plane = controlplane.start(
            supervisor,
            directory=directory / "cluster",
            binaries=programs,
            kai_version=kai_version,
            lasting=durable,
        )
        if standins:
            for command in standin_commands(plane, kai_version=kai_version, flags=[EVICTION_FLAG]):
                supervisor.start(command)
    progress("migrating the database")
    if fresh := migrated.result():
        write_secret(token, fresh)
    progress("starting web, worker, beat and observer")
    web = _start_service(supervisor, settings)
    if prepare and plane:
        prepare(plane)
    progress("waiting until the service is ready")
    _wait_for_service(supervisor, web, settings)
    if not fresh and not _logs_in(settings.api_url, token.read_text()):  # a database of somebody else's
        write_secret(token, service.OneOff(settings, MAKE_TOKEN, env=login).result())
    kubeconfig = plane.kubeconfig("admin") if plane else options.kubeconfig
    assert kubeconfig is not None
    return Running(
        directory=directory,
        home=home,
        supervisor=supervisor,
        settings=settings,
        kubeconfig=kubeconfig.resolve(),
        plane=plane,
        admin_password=password,
        token=token.read_text(),
    )


def _foreign_files(directory: Path, options: Options) -> list[Path]:
    """The files of the kubeconfigs that this start and earlier ones were given, as far as they are there.

    The database says what was created in those clusters, so the service may go on with it.
    """
    path = directory / FOREIGN_CLUSTERS
    kubeconfigs = [*json.loads(path.read_text())] if path.exists() else []
    if options.kubeconfig and str(options.kubeconfig) not in kubeconfigs:
        kubeconfigs.append(str(options.kubeconfig))
        path.write_text(json.dumps(kubeconfigs))
    return [file for name in kubeconfigs if Path(name).exists() for file in _with_named_files(Path(name))]


def _with_named_files(kubeconfig: Path) -> list[Path]:
    """A kubeconfig of the caller's own and the files that it names, which the service may read."""
    content = yaml.safe_load(kubeconfig.read_text())
    parts = [
        *(entry.get("cluster") or {} for entry in content.get("clusters") or ()),
        *(entry.get("user") or {} for entry in content.get("users") or ()),
    ]
    names = [part[field] for part in parts for field in NAMED_FILES if part.get(field)]
    return [kubeconfig, *(kubeconfig.parent / name for name in names)]


def _databases(
    supervisor: Supervisor,
    directory: Path,
    options: Options,
    *,
    durable: bool,
    progress: Callable[[str], None],
) -> tuple[Path | None, str, str]:
    """Where the data of those lie that are started here, and both addresses."""
    database_url, redis_url = options.database_url, options.redis_url
    if database_url and redis_url:
        return None, database_url, redis_url
    home = servers.Home.make(directory / "databases", lasting=durable)
    if home.temporary:
        note_home(directory, home.data)
    if not database_url:
        progress("starting PostgreSQL")
        database_url = servers.start_postgres(supervisor, home, durable=durable)
    if not redis_url:
        progress("starting Redis")
        redis_url = servers.start_redis(supervisor, home)
    return home.data, database_url, redis_url


def _start_service(supervisor: Supervisor, settings: service.Settings) -> Child:
    """Start its processes and return web."""
    children = {name: supervisor.start(command) for name, command in service.commands(settings).items()}
    return children["web"]


def _wait_for_service(supervisor: Supervisor, web: Child, settings: service.Settings) -> None:
    pool = urllib3.PoolManager()

    def probe() -> str | None:
        try:
            answer = pool.request("GET", f"{settings.api_url}/readyz", timeout=5, retries=False)
        except urllib3.exceptions.HTTPError as error:
            return str(error)
        return None if answer.status == 200 else answer.data.decode(errors="replace")[:300]

    supervisor.wait_ready(web, probe, seconds=READY_SECONDS)
    supervisor.check()


def _kept_secret(path: Path) -> str:
    """A secret that is made once per directory."""
    if not path.exists():
        write_secret(path, secrets.token_urlsafe(32))
    return path.read_text()


def _logs_in(api_url: str, token: str) -> bool:
    try:
        Rest(api_url=api_url, token=token).get("/api/pool")
    except Refused as error:
        if error.status == HTTPStatus.UNAUTHORIZED:
            return False
        raise
    return True
