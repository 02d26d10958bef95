import pytest

from tests.worker.world import World


@pytest.fixture
def world(db):
    return World()
