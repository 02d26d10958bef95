from datetime import UTC, datetime

import pytest
import time_machine

from tests.fakes.kai import cluster, clusters  # noqa: F401 -- fixtures
from tests.fakes.usage import running  # noqa: F401 -- a fixture


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
