from datetime import UTC, datetime

import pytest
import time_machine

from tests.fakes.kai import kai_cluster, reached_through
from tests.fakes.usage import at_work


@pytest.fixture
def cluster():
    return kai_cluster()


@pytest.fixture(autouse=True)
def clusters(cluster):
    with reached_through({"": cluster, "/etc/kai": cluster, "/etc/same": cluster}) as reached:
        yield reached


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


@pytest.fixture
def running():
    """Running work; a test says how much."""
    with at_work() as usage:
        yield usage
