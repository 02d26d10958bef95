import secrets

import pytest

from cluster.connection import Access
from cluster.gateway import ClusterGateway
from cluster.kinds import NAMESPACE


@pytest.fixture
def access(kubeconfig):
    """The way to a real API server, with every right."""
    return Access(str(kubeconfig))


@pytest.fixture
def real(access):
    return ClusterGateway(access)


@pytest.fixture
def namespace(real):
    """A namespace of the test's own, by its name."""
    name = f"test-{secrets.token_hex(4)}"
    real.create(NAMESPACE, {"metadata": {"name": name}})
    yield name
    real.delete(NAMESPACE, name, uid=None)
