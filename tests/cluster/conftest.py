import pytest

from cluster.connection import Access
from cluster.gateway import ClusterGateway


@pytest.fixture
def access(kubeconfig):
    """The way to a real API server, with every right."""
    return Access(str(kubeconfig))


@pytest.fixture
def real(access):
    return ClusterGateway(access)
