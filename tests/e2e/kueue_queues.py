"""Queues of Kueue on a pool's nodes, made and removed as an administrator does."""

from localcluster import kueue_queues
from localcluster.kueue_queues import Queue
from scheduling import names
from tests.standins.conftest import deleted


class Queues:
    """Queues on the nodes of pools, as an administrator makes them."""

    def __init__(self, world):
        self._world, self._paths = world, []

    def make(self, pool, *labels, within="Never", queue="", gpus=1000):
        """A queue of the pool's own name, or ``queue``, which the pool has to name."""
        namespace = self._world.namespace
        made = Queue(
            name=pool,
            local=queue or names.queue(namespace, pool),
            namespace=namespace,
            node_labels={"osmo.local/pool": pool},
            levels=labels,
            gpus=gpus,
            preemption=within,
        )
        self._paths += kueue_queues.apply(self._world.api, made)

    def clear(self):
        for path in reversed(self._paths):
            self._world.wait(lambda path=path: deleted(self._world.api, path), bool)
