"""The loop: wait for a change, take a snapshot, decide, write.

Nothing happens while nothing changes. What was written stands in the mirrors at once, so no cycle decides on
a cluster that is already past.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from localcluster.api import Access, Api, Json
from localcluster.standins.kueue import reader
from localcluster.standins.kueue.cycle import schedule
from localcluster.standins.kueue.values import Snapshot
from localcluster.standins.kueue.writer import KUEUE, Writer
from localcluster.standins.mirror import Mirror, start_all

PERIOD = 0.1
RETRY_SECONDS = 1.0

log = logging.getLogger(__name__)

T = TypeVar("T")


class Manager:
    """The stand-in for Kueue's controllers on one API server."""

    def __init__(self, access: Access) -> None:
        self.api = Api(access, connections=16)
        self.stop = threading.Event()
        self.changed = threading.Event()
        self.mirrors: list[Mirror[Any]] = []
        self.nodes = self._mirror("/api/v1/nodes", reader.node)
        self.pods = self._mirror("/api/v1/pods", reader.pod)
        self.namespaces = self._mirror("/api/v1/namespaces", reader.namespace)
        self.topologies = self._mirror(f"{KUEUE}/topologies", reader.topology)
        self.flavors = self._mirror(f"{KUEUE}/resourceflavors", reader.flavor)
        self.queues = self._mirror(f"{KUEUE}/clusterqueues", reader.cluster_queue)
        self.local = self._mirror(f"{KUEUE}/localqueues", reader.local_queue)
        self.workloads = self._mirror(f"{KUEUE}/workloads", reader.workload)
        self.writer = Writer(self.api, workloads=self.workloads, queues=self.queues, local=self.local)

    def _mirror(self, path: str, read: Callable[[Json], T]) -> Mirror[T]:
        mirror = Mirror(api=self.api, path=path, read=read, changed=self.changed.set, stop=self.stop)
        self.mirrors.append(mirror)
        return mirror

    def run(self) -> None:
        """Work until ``shut_down``."""
        start_all(self.mirrors, stop=self.stop)
        log.info("all kinds listed")
        wake_at: float | None = None
        while not self.stop.is_set():
            self.changed.wait(None if wake_at is None else max(wake_at - time.time(), 0))
            if self.stop.is_set():
                return
            self.changed.clear()
            started = time.monotonic()
            wake_at = self.cycle()
            self.stop.wait(max(PERIOD, time.monotonic() - started))

    def shut_down(self) -> None:
        """End ``run`` at its next step; safe from a signal handler."""
        self.stop.set()
        self.changed.set()

    def snapshot(self) -> Snapshot:
        """What is known now, own writes included."""
        return Snapshot(
            now=time.time(),
            nodes=self.nodes.values(),
            pods=tuple(pod for pod in self.pods.values() if pod is not None),
            workloads=self.workloads.values(),
            cluster_queues=self.queues.values(),
            local_queues=self.local.values(),
            flavors=self.flavors.values(),
            topologies=self.topologies.values(),
            namespaces=dict(self.namespaces.values()),
        )

    def cycle(self) -> float | None:
        """Decide and write once; return when to look again even if nothing changes."""
        decisions = schedule(self.snapshot())
        written = self.writer.write(decisions.changes, decisions.statuses)
        return decisions.wake_at if written else time.time() + RETRY_SECONDS
