from datetime import UTC, datetime

import pytest
import time_machine

from pools import interfaces
from pools.interfaces import NoUsage
from tests.fakes.kai import kai_cluster, reached_through


@pytest.fixture
def cluster():
    return kai_cluster()


@pytest.fixture(autouse=True)
def clusters(cluster):
    with reached_through({"": cluster, "/etc/kai": cluster, "/etc/same": cluster}) as reached:
        yield reached


class Usage(NoUsage):
    """Running work as a test wants it."""

    def __init__(self):
        self.living, self.unreleased, self.topologies, self.queues = 0, 0, set(), set()
        self.nudged = []

    def live_workflows(self, pool_name):
        return self.living

    def unreleased_groups(self, backend_id):
        return self.unreleased

    def needed_topologies(self, cluster_uid):
        return self.topologies

    def needed_queues(self, cluster_uid):
        return self.queues

    def nudge_backend(self, backend_id):
        self.nudged.append(backend_id)


@pytest.fixture
def running():
    """Running work; a test says how much."""
    usage = Usage()
    before = interfaces.fill(usage)
    yield usage
    interfaces.fill(before)


@pytest.fixture
def time_machine_at():
    """Move the clock on; it is back when the test ends."""
    travels = []

    def move(by):
        travel = time_machine.travel(datetime.now(UTC) + by, tick=True)
        travel.start()
        travels.append(travel)

    yield move
    for travel in travels:
        travel.stop()
