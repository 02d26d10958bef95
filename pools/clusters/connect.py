"""From a backend's row to its cluster: the one place where the two meet.

Tests replace ``connect``; all other code calls ``cluster_for``. A gateway keeps no state except the address,
so each use makes its own.
"""

from collections.abc import Callable

from cluster.clock import boot_seconds
from cluster.connection import Access
from cluster.gateway import READ_SECONDS, ClusterGateway
from cluster.guarded import guarded
from cluster.interface import ClusterApi
from pools.clusters.guard import Guard
from pools.models import Backend


def gateway(access: Access, read_seconds: float, until: float | None) -> ClusterApi:
    return ClusterGateway(access, read_seconds=read_seconds, until=until)


connect: Callable[[Access, float, float | None], ClusterApi] = gateway


def cluster_for(
    backend: Backend, *, read_seconds: float = READ_SECONDS, seconds: float | None = None
) -> ClusterApi:
    """The cluster of a backend, which refuses writes without the right to them (``pools.clusters.guard``).

    Opens no connection: a wrong address shows at the first call.

    ``seconds``: no call begins later than that from now. Periodic work has such a bound, because nothing
    else ends a thread of a worker.
    """
    until = None if seconds is None else boot_seconds() + seconds
    access = access_of(backend)
    cluster = connect(access, read_seconds, until)
    return guarded(cluster, Guard(access, cluster).permit)


def guard_for(backend: Backend, *, read_seconds: float, seconds: float) -> Guard:
    """The guard of a backend's cluster; the times are those of ``cluster_for``."""
    access = access_of(backend)
    return Guard(access, connect(access, read_seconds, boot_seconds() + seconds))


def access_of(backend: Backend) -> Access:
    """How a backend's cluster is reached."""
    return Access(kubeconfig=backend.kubeconfig, context=backend.context)
