"""What happens in a day of many clusters, and what it costs by the measured price of each happening. Pure.

Measured are prices: seconds of processor time of each process for one event, one listed object, one task
group. A day's rates are computed from the size of the clusters and from the assumptions that ``Fleet`` names.
So what ``cores`` returns is computed, never measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass

DAY = 86_400.0
HEARTBEAT_SECONDS = 300.0
"""How often a kubelet writes an unchanged status: ``nodeStatusReportFrequency``, Kubernetes 1.36."""
RELIST_SECONDS = 600.0
"""How often every stream lists again: ``cluster.watch.RELIST_SECONDS``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Clusters that are alike; the last five fields are assumptions, to be replaced by one's own."""

    clusters: int
    nodes: int = 5_000
    pods: int = 5_000
    """Our own pods that live at any time in one cluster."""
    foreign_per_node: int = 12
    """Other tenants' pods on each node: DaemonSets of network, storage, GPUs, logs and metrics."""
    foreign_changes_per_day: float = 4.0
    """How often another tenant's pod changes."""
    pod_hours: float = 4.0
    """How long a pod lives on average."""
    pods_per_group: float = 8.0
    peak: float = 5.0
    """By how much the busiest minutes begin more groups than the average."""

    @property
    def gpu_hours_per_gpu(self) -> float:
        """GPU hours a day of all our pods together, for each GPU that a pod has."""
        return self.clusters * self.pods * 24.0

    def rates(self, *, peak: bool) -> dict[str, float]:
        """How much happens in one second in all clusters."""
        groups = self.pods / self.pods_per_group / (self.pod_hours * 3600) * (self.peak if peak else 1.0)
        foreign = self.nodes * self.foreign_per_node
        each = {
            "heartbeats": self.nodes / HEARTBEAT_SECONDS,
            "listed": (self.nodes + foreign + self.pods) / RELIST_SECONDS,
            "foreign_changes": foreign * self.foreign_changes_per_day / DAY,
            "groups": groups,
        }
        return {name: rate * self.clusters for name, rate in each.items()}


Prices = Mapping[str, Mapping[str, float]]
"""Seconds of processor time by process and happening."""


def cores(fleet: Fleet, prices: Prices, *, peak: bool) -> dict[str, float]:
    """Cores that each kind of process needs, on machines like the one on which the prices were measured."""
    rates = fleet.rates(peak=peak)
    return {
        process: sum(rates[name] * seconds for name, seconds in of_process.items())
        for process, of_process in prices.items()
    }
