import pytest

from cluster.connection import Access
from cluster.gateway import ClusterGateway


@pytest.fixture
def access(request):
    """The way to a real API server, with every right."""
    try:
        return Access(str(request.getfixturevalue("kubeconfig")))
    except pytest.FixtureLookupError:
        pytest.skip("no fixture starts a local cluster here")


@pytest.fixture
def real(access):
    return ClusterGateway(access)
