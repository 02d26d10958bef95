"""A running service on a local cluster of its own, made for one part of the bench.

Each part starts its own, so that none measures what another left behind: rows, objects in etcd, memory
that an interpreter keeps. Only servers that this process started are ever spoken to; there is no way to
hand in others.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg

from localcluster import nodes, stack
from localcluster.api import Api
from localcluster.controlplane import create_namespace
from localcluster.directories import run_directory
from localcluster.rest import Rest
from localcluster.supervisor import Supervisor
from scheduling.backends.priorities import class_names
from scheduling.names import QUEUE_PREFIX

POOL_LABEL = "osmo.local/pool"
ZONE = "topology.kubernetes.io/zone"
CLIQUE = "nvidia.com/gpu.clique"
RACK = "osmo.local/rack"
RACK_SIZE = 8
POLL_SECONDS = 0.2

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Site:
    """One running stack with its clients."""

    running: stack.Running
    api: Api
    rest: Rest

    @property
    def supervisor(self) -> Supervisor:
        return self.running.supervisor

    def add_nodes(
        self, pool: str, *, count: int, gpus: int = 0, pods: int = 110, nvlink: bool = False
    ) -> None:
        """Nodes of a pool, by eight in a rack and all in one zone; each rack a clique with ``nvlink``."""
        size: dict[str, Any] = {"gpus": gpus, "cpus": 256, "memory_gib": 2048, "pods": pods}
        machines = []
        for number in range(count):
            rack = f"{pool}-r{number // RACK_SIZE}"
            labels = {POOL_LABEL: pool, ZONE: "z1", RACK: rack} | ({CLIQUE: f"{rack}.1"} if nvlink else {})
            machines.append(nodes.Node(name=f"{pool}-{number}", labels=labels, **size))
        nodes.create(self.api, machines)
        nodes.wait_ready(self.api, machines)

    def add_backend(self, name: str, scheduler: str) -> None:
        """Register this cluster under a scheduler, in a namespace of its own, and wait until it answers."""
        create_namespace(self.api, namespace_of(name))
        settings = {
            "kubeconfig": str(self.running.kubeconfig),
            "k8s_namespace": namespace_of(name),
            "scheduler_settings": {"scheduler_type": scheduler},
            "queue_settings": {"parent_quota": "unlimited"},  # as in all earlier measurements
        }
        self.rest.put(f"/api/configs/backend/{name}", {"configs": settings})
        self.wait(
            lambda: is_reachable(self.rest, name), seconds=60, awaited=f"backend {name} to be reachable"
        )

    def add_pool(self, name: str, *, backend: str, topology: bool, nvlink: bool = False) -> None:
        """Make a pool, and wait until its cluster has the priority classes that its pods name."""
        keys = [{"key": "zone", "label": ZONE}, {"key": "rack", "label": RACK}]
        settings = {
            "backend": backend,
            "node_selector": {POOL_LABEL: name},
            "topology_keys": keys if topology else [],
            "nvlink": nvlink,
            "platforms": {"gpu": {}},
            "default_platform": "gpu",
        }
        self.rest.put(f"/api/configs/pool/{name}", {"configs": settings})
        self.wait(lambda: _has_priority_classes(self.api), seconds=60, awaited="priority classes")

    def submit(self, pool: str, text: str) -> str:
        """Submit a workflow; returns its name."""
        return str(self.rest.submit(pool, text)["name"])

    def dry_run(self, pool: str, text: str) -> list[dict[str, Any]]:
        """The objects that a workflow would have, in the order of their creation."""
        reply = self.rest.post(f"/api/pool/{pool}/workflow?dry_run=true", {"file": text})
        return list(reply["objects"])

    def pods(self, backend: str) -> list[dict[str, Any]]:
        return self.api.list(f"/api/v1/namespaces/{namespace_of(backend)}/pods")[0]

    def count(self, query: LiteralString) -> int:
        """The number that a query of the service's database answers."""
        return count(self.running.settings.database_url, query)

    def logged(self, process: str, event: str) -> Iterator[dict[str, Any]]:
        """The lines of a process's log that tell of an event."""
        with (self.supervisor.log_dir / f"{process}.log").open(errors="replace") as log:
            for line in log:
                if f'"{event}"' in line and line.startswith("{"):
                    yield json.loads(line)

    def cancel(self, workflows: Sequence[str], *, seconds: float) -> None:
        """Cancel workflows and wait until nothing of them is left in the cluster."""
        for name in workflows:
            self.rest.post(f"/api/workflow/{name}/cancel?force=true", {})
        left = set(workflows)

        def released() -> bool:
            for name in list(left):
                groups = self.rest.get(f"/api/workflow/{name}")["groups"]
                if all(group["released_at"] for group in groups):
                    left.discard(name)
            return not left

        self.wait(released, seconds=seconds, awaited="cancelled workflows to be released")

    def wait(self, condition: Callable[[], bool], *, seconds: float, awaited: str) -> None:
        wait(self.supervisor, condition, seconds=seconds, awaited=awaited)


def count(database_url: str, query: LiteralString) -> int:
    """The number that a query of a database answers."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        row = connection.execute(query).fetchone()
    return int(row[0]) if row else 0


def wait(supervisor: Supervisor, condition: Callable[[], bool], *, seconds: float, awaited: str) -> None:
    """Wait until ``condition`` holds; raises TimeoutError, or ServerFailed if a process has ended."""
    until = time.monotonic() + seconds
    while not condition():
        supervisor.check()
        if time.monotonic() > until:
            raise TimeoutError(f"waited {seconds:g} s in vain for {awaited}")
        time.sleep(POLL_SECONDS)


def namespace_of(backend: str) -> str:
    return f"osmo-{backend}"


@contextmanager
def started_site(
    *, progress: Progress, standins: bool, more: Mapping[str, str] | None = None
) -> Iterator[Site]:
    """Start everything; at the end, however it comes, everything is stopped and its files are gone.

    ``more`` are settings of the product.
    """
    with run_directory("bench") as directory, Supervisor(log_dir=directory / "logs") as supervisor:
        running = stack.start(
            supervisor,
            directory=directory,
            options=stack.Options(),
            durable=False,
            progress=progress,
            standins=standins,
            more=more,
        )
        assert running.plane is not None
        api = Api(running.plane.access())
        try:
            yield Site(running, api, Rest(api_url=running.api_url, token=running.token))
        finally:
            api.close()


def is_reachable(rest: Rest, name: str) -> bool:
    conditions = rest.get(f"/api/configs/backend/{name}")["conditions"]
    return any(condition["type"] == "Reachable" and condition["status"] == "True" for condition in conditions)


def _has_priority_classes(api: Api) -> bool:
    classes = api.list("/apis/scheduling.k8s.io/v1/priorityclasses")[0]
    return class_names(QUEUE_PREFIX) <= {obj["metadata"]["name"] for obj in classes}
