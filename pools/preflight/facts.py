"""What the checks read, as values. A fact that could not be read is ``Unread``."""

from collections.abc import Mapping
from dataclasses import dataclass

from pools.clusters.probe import Probe
from pools.preflight.rights import Right
from scheduling.backends.facets import SchedulerBackend
from scheduling.preflight import Observed, Reading
from scheduling.topology.levels import Levels


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedPool:
    """A pool and its nodes. ``labels`` counts the nodes that carry a label; ``gpu_nodes`` offer GPUs."""

    name: str
    nvlink: bool
    levels: Levels
    nodes: int
    labels: Mapping[str, int]
    gpu_nodes: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """A backend's cluster, as it was read with this process's credentials."""

    backend: str
    namespace: str
    scheduler: SchedulerBackend | None
    scheduler_type: str
    scheduler_name: str

    shard: str
    """The value of the backend's shard; empty: it has none."""

    probe: Probe

    username: Reading[str]
    """That of the credentials in the cluster."""

    rights: Reading[Mapping[Right, bool]]
    """Of each right, whether the credentials have it."""

    device_class: Reading[bool]

    channels: Reading[frozenset[str]]
    """The nodes that offer a channel of NVLink."""

    pools: Reading[tuple[CheckedPool, ...]]
    installed: Observed

    clock: Reading[float]
    """The API server's time less ours, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationFacts:
    """The service's own servers. ``clock`` is the database's time less ours, in seconds.

    ``database`` is PostgreSQL's version as a number (180004); ``bounded`` whether it ends statements that
    take too long; ``pending`` names migrations that are not
    applied. ``broker`` is Redis' role by its own account, such as ``master``; empty if it may not be read.
    """

    database: Reading[int]
    bounded: Reading[bool]
    pending: Reading[tuple[str, ...]]
    clock: Reading[float]
    broker: Reading[str]
