"""From a backend's row to the cluster behind it: the one place where the two meet.

``connect`` is what tests replace; everything else asks ``cluster_for``. A gateway keeps no state but the
address, so one is made per use.
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
    """The cluster of a backend. Opens nothing: what is wrong with the address shows at the first call."""
    return connect(access_of(backend), read_seconds)


def access_of(backend: Backend) -> Access:
    """How a backend's cluster is reached."""
    return Access(kubeconfig=backend.kubeconfig, context=backend.context)
