"""From a backend's row to its cluster: the one place where the two meet.

Tests replace ``connect``; all other code calls ``cluster_for``. A gateway keeps no state except the address,
so each use makes its own.
"""

from collections.abc import Callable

from cluster.connection import Access
from cluster.gateway import READ_SECONDS, ClusterGateway
from cluster.interface import ClusterApi
from pools.models import Backend


def gateway(access: Access, read_seconds: float) -> ClusterApi:
    return ClusterGateway(access, read_seconds=read_seconds)


connect: Callable[[Access, float], ClusterApi] = gateway


def cluster_for(backend: Backend, *, read_seconds: float = READ_SECONDS) -> ClusterApi:
    """The cluster of a backend. Opens no connection: a wrong address shows at the first call."""
    return connect(access_of(backend), read_seconds)


def access_of(backend: Backend) -> Access:
    """How a backend's cluster is reached."""
    return Access(kubeconfig=backend.kubeconfig, context=backend.context)
