"""The loop: wait for a change, take a snapshot, decide, write.

Nothing happens while nothing changes. A write stands in the mirrors at once, so no cycle decides on a cluster
that is already past.
"""

import logging
import time

from localcluster.api import Access
from localcluster.standins.kueue import reader
from localcluster.standins.kueue.cycle import schedule
from localcluster.standins.kueue.values import Snapshot
from localcluster.standins.kueue.writer import KUEUE, Writer
from localcluster.standins.mirror import Mirrors

PERIOD = 0.1
RETRY_SECONDS = 1.0

log = logging.getLogger(__name__)


class Manager(Mirrors):
    """The stand-in for Kueue's controllers on one API server."""

    def __init__(self, access: Access) -> None:
        super().__init__(access, connections=16)
        self.nodes = self.mirror("/api/v1/nodes", reader.node)
        self.pods = self.mirror("/api/v1/pods", reader.pod)
        self.namespaces = self.mirror("/api/v1/namespaces", reader.namespace)
        self.topologies = self.mirror(f"{KUEUE}/topologies", reader.topology)
        self.flavors = self.mirror(f"{KUEUE}/resourceflavors", reader.flavor)
        self.queues = self.mirror(f"{KUEUE}/clusterqueues", reader.cluster_queue)
        self.local = self.mirror(f"{KUEUE}/localqueues", reader.local_queue)
        self.workloads = self.mirror(f"{KUEUE}/workloads", reader.workload)
        self.writer = Writer(
            self.api,
            workloads=self.workloads,
            queues=self.queues,
            local=self.local,
            flavors=self.flavors,
            topologies=self.topologies,
        )

    def run(self) -> None:
        """Work until ``shut_down``."""
        self.start_mirrors()
        log.info("all kinds listed")
        self.run_cycles(self.cycle, period=PERIOD)

    def snapshot(self) -> Snapshot:
        """The known state of now, own writes included."""
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
        guarded = self.writer.guard(decisions.guards)
        written = self.writer.write(decisions.changes, decisions.statuses) and guarded
        return decisions.wake_at if written else time.time() + RETRY_SECONDS
