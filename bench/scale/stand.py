"""The whole service with its own command lines, on PostgreSQL, Redis and the clusters in memory.

Only settings differ: each process has the app ``bench.scale`` besides. Workers and observers can be started
and stopped by number. Counts come from where nothing can be missed: the kernel's processor time of every
process, PostgreSQL's own counters and its log of lock waits, Redis' count of commands, and the metrics of
each process.
"""

import json
import re
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import redis
import urllib3
import yaml

from bench.scale.apps import SOCKET
from bench.scale.objects import CLIQUE, POOL_LABEL, RACK, ZONE
from bench.scale.remote import RemoteCluster
from bench.site import Progress, count, is_reachable, wait
from bench.usage import cpu_seconds, memory
from cluster.kinds import NAMESPACE
from localcluster import service, stack
from localcluster.directories import CHECKOUT, run_directory
from localcluster.ports import LOOPBACK, free_ports
from localcluster.rest import Rest
from localcluster.supervisor import Command, Supervisor

LOCK_WAIT = "10ms"
"""A wait for a lock that lasts longer is counted; shorter ones cost less than a statement."""
LEVELS = (("zone", ZONE), ("rack", RACK), ("clique", CLIQUE))
START_SECONDS = 120
_SAMPLE = re.compile(r"^(\w+?)(?:\{.*\})? ([0-9.e+-]+)$", re.MULTILINE)
_METRICS = {
    "statements": "bench_sql_statements_total",
    "reconciles": "osmo_topology_reconcile_seconds_count",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The clusters of a run: as many as named, alike."""

    clusters: int
    nodes: int
    foreign_per_node: int
    run_seconds: float
    foreign_groups: int = 0
    waiting_gangs: int = 0

    @property
    def names(self) -> list[str]:
        return [f"c{number}" for number in range(self.clusters)]


@dataclass(slots=True)
class Stand:
    """A running service with its clusters."""

    running: stack.Running
    rest: Rest
    path: str
    plan: Plan
    ports: dict[str, int] = field(default_factory=dict)
    """Where each worker and observer shows its metrics."""
    observers: int = 0

    @property
    def supervisor(self) -> Supervisor:
        return self.running.supervisor

    @property
    def database_url(self) -> str:
        return self.running.settings.database_url

    def world(self, cluster: str) -> RemoteCluster:
        return RemoteCluster(self.path, cluster)

    def set_rates(self, **rates: float) -> None:
        """Events a second of ``nodes`` and ``foreign`` pods in each cluster."""
        for name in self.plan.names:
            self.world(name).control("set_rates", name, rates)

    def add_cluster(self, name: str, *, scheduler: str) -> None:
        """Register a cluster with a pool of all its nodes."""
        self.world(name).create(NAMESPACE, {"metadata": {"name": f"osmo-{name}"}})
        settings = {
            "kubeconfig": str(self.running.kubeconfig),
            "context": name,
            "k8s_namespace": f"osmo-{name}",
            "scheduler_settings": {"scheduler_type": scheduler},
        }
        self.rest.put(f"/api/configs/backend/{name}", {"configs": settings})
        self.wait(lambda: is_reachable(self.rest, name), seconds=60, awaited=f"backend {name}")
        pool = {
            "backend": name,
            "node_selector": {POOL_LABEL: "gpu"},
            "topology_keys": [{"key": key, "label": label} for key, label in LEVELS],
            "platforms": {"gpu": {}},
            "default_platform": "gpu",
        }
        self.rest.put(f"/api/configs/pool/{name}", {"configs": pool})

    def run(self, *, workers: int, observers: int) -> None:
        """Have so many processes of either kind, no more and no less; observers share the clusters."""
        if observers != self.observers:
            self._keep("observer", 0)
        self.observers = observers
        self._keep("worker", workers)
        self._keep("observer", observers)
        self.wait(self._all_answer, seconds=START_SECONDS, awaited="workers and observers to begin")

    def _keep(self, role: str, count: int) -> None:
        crew = {f"{role}-{number}" for number in range(count)}
        running = {child.command.name for child in self.supervisor.children}
        for name in {name for name in running if name == role or name.startswith(f"{role}-")} - crew:
            self.supervisor.stop_one(name)
            self.ports.pop(name, None)
        for name in sorted(crew - running):
            self.supervisor.start(self._command(role, name))

    def _all_answer(self) -> bool:
        for port in self.ports.values():
            with socket.socket() as connection:
                if connection.connect_ex((LOOPBACK, port)):
                    return False
        return True

    def _command(self, role: str, name: str) -> Command:
        command = service.commands(self.running.settings)[role]
        (self.ports[name],) = free_ports(1)
        directory = self.running.settings.processes / name
        directory.mkdir(exist_ok=True, mode=0o700)
        environment = {
            **command.env,
            "OSMO_METRICS_PORT": str(self.ports[name]),
            "OSMO_OBSERVER_CLUSTERS": str(-(-self.plan.clusters // max(1, self.observers))),
        }
        argv = [*command.argv, "--hostname", f"{name}@%h"] if role == "worker" else command.argv
        return replace(command, name=name, argv=argv, env=environment, cwd=directory)

    def wait(self, condition: Callable[[], bool], *, seconds: float, awaited: str) -> None:
        wait(self.supervisor, condition, seconds=seconds, awaited=awaited)

    def number(self, query: LiteralString) -> int:
        """The number that a query of the service's database answers."""
        return count(self.database_url, query)

    def sent(self) -> dict[str, float]:
        """What all clusters together have sent so far, and which calls they have had."""
        sent: Counter[str] = Counter()
        for name in self.plan.names:
            sent.update(self.world(name).control("counts", name))
        return dict(sent)

    def reading(self) -> dict[str, float]:
        """Everything that is counted, as it stands."""
        counts: dict[str, float] = {"at": time.monotonic()}
        for name, seconds in cpu_seconds(self.supervisor).items():
            role = name.split("-")[0]
            counts[f"cpu.{role}"] = counts.get(f"cpu.{role}", 0.0) + seconds
        return counts | self.sent() | self._database() | self._messages() | self._metrics()

    def memory_mib(self) -> dict[str, int]:
        return {name: use.rss for name, use in memory(self.supervisor).items()}

    def _database(self) -> dict[str, float]:
        query = """
            SELECT xact_commit, tup_inserted + tup_updated + tup_deleted, deadlocks,
                   pg_current_wal_lsn() - '0/0'::pg_lsn
              FROM pg_stat_database WHERE datname = current_database()
        """
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            row = connection.execute(query).fetchone()
        assert row is not None
        names = ("transactions", "rows_written", "deadlocks", "wal_bytes")
        log = (self.supervisor.log_dir / "postgres.log").read_text(errors="replace")
        waits = {"lock_waits": float(log.count("still waiting for"))}
        return {name: float(value) for name, value in zip(names, row, strict=True)} | waits

    def _messages(self) -> dict[str, float]:
        with redis.Redis.from_url(self.running.settings.redis_url) as client:
            commands: Any = client.info("commandstats")
        return {"messages": float(commands.get("cmdstat_lpush", {}).get("calls", 0))}

    def _metrics(self) -> dict[str, float]:
        totals: dict[str, float] = {}
        pool = urllib3.PoolManager(headers={"Authorization": f"Bearer {self.running.settings.metrics_token}"})
        for name, port in self.ports.items():
            role = name.split("-")[0]
            answer = pool.request("GET", f"http://{LOOPBACK}:{port}/metrics", timeout=10, retries=3)
            text = answer.data.decode()
            samples: dict[str, float] = {}
            for sample, value in _SAMPLE.findall(text):
                samples[sample] = samples.get(sample, 0.0) + float(value)
            for measure, sample in _METRICS.items():
                key = f"{measure}.{role}"
                totals[key] = totals.get(key, 0.0) + samples.get(sample, 0.0)
        return totals


def difference(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """The changes between two readings; ``seconds`` is the time between them."""
    moved = {name: after[name] - before[name] for name in after if name in before}
    return {"seconds": moved.pop("at"), **moved}


@contextmanager
def started_stand(plan: Plan, *, progress: Progress) -> Iterator[Stand]:
    """Start everything but extra workers and observers; at the end everything is stopped and removed."""
    with (
        run_directory("bench") as directory,
        tempfile.TemporaryDirectory(prefix="osmo-") as sockets,
        Supervisor(log_dir=directory / "logs") as supervisor,
    ):
        path = str(Path(sockets) / "clusters")  # short: a socket's path has 107 characters at most
        _start_clusters(supervisor, directory, plan, path)
        running = stack.start(
            supervisor,
            directory=directory,
            options=stack.Options(kubeconfig=_kubeconfig(directory, plan)),
            durable=False,
            progress=progress,
            more={"DJANGO_SETTINGS_MODULE": "bench.scale.settings", SOCKET: path},
        )
        for name in ("worker", "observer"):
            supervisor.stop_one(name)
        _count_lock_waits(running.settings.database_url)
        yield Stand(running, Rest(api_url=running.api_url, token=running.token), path, plan)


def _start_clusters(supervisor: Supervisor, directory: Path, plan: Plan, path: str) -> None:
    content = directory / "plan.json"
    content.write_text(json.dumps(asdict(plan) | {"clusters": plan.names}))
    child = supervisor.start(
        Command(
            name="clusters",
            argv=[sys.executable, "-m", "bench.scale.world", path, str(content)],
            env={"PYTHONPATH": str(CHECKOUT), "OSMO_ENV": "development"},
            cwd=directory,
        )
    )
    ready = lambda: None if Path(path).exists() else "no socket yet"  # noqa: E731
    supervisor.wait_ready(child, ready, seconds=60)


def _kubeconfig(directory: Path, plan: Plan) -> Path:
    """A file that names each cluster as a context; nothing ever connects to its address."""
    path = directory / "kubeconfig"
    contexts = [{"name": name, "context": {"cluster": "memory", "user": "nobody"}} for name in plan.names]
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "memory", "cluster": {"server": f"http://{LOOPBACK}:1"}}],
        "users": [{"name": "nobody", "user": {}}],
        "contexts": contexts,
        "current-context": plan.names[0],
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(content))
    return path


def _count_lock_waits(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET log_lock_waits = on")
        connection.execute(f"ALTER SYSTEM SET deadlock_timeout = '{LOCK_WAIT}'")
        connection.execute("SELECT pg_reload_conf()")
