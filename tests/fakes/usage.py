"""Running work as a test wants it, in place of what workflows would answer."""

from contextlib import contextmanager

import pytest

from pools import interfaces
from pools.interfaces import ComputeDomains, Unreleased
from scheduling.topology.levels import Level


class Usage:
    """Running work as a test wants it."""

    def __init__(self):
        self.living, self.unreleased, self.topologies, self.queues = 0, 0, set(), set()
        self.priority_classes = set()
        self.notified, self.domains = [], []

    def live_workflows(self, pool_name):
        return self.living

    def unreleased_in_pool(self, pool_name):
        accepted = (("kai", (Level("zone", "example.com/zone"),)),)
        return Unreleased(workflows=min(self.unreleased, 1), groups=self.unreleased, accepted=accepted)

    def living_by_pool(self):
        return {}

    def room(self, pool):
        return {}

    def news_problems(self, pool_names):
        return dict.fromkeys(pool_names, ())

    def compute_domains(self, pool_name, *, most):
        return ComputeDomains(len(self.domains), tuple(self.domains[:most]))

    def unreleased_groups(self, backend_id):
        return self.unreleased

    def needed_topologies(self, cluster_uid):
        return self.topologies

    def needed_queues(self, cluster_uid):
        return self.queues

    def needed_priority_classes(self, cluster_uid):
        return self.priority_classes

    def notify_backend(self, backend_id):
        self.notified.append(backend_id)


@contextmanager
def at_work():
    usage = Usage()
    before = interfaces.fill(usage)
    try:
        yield usage
    finally:
        interfaces.fill(before)


@pytest.fixture
def running():
    """Running work; a test says how much."""
    with at_work() as usage:
        yield usage
