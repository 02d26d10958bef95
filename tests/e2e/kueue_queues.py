"""Queues of Kueue on a pool's nodes, as an administrator makes them, and the work that runs in them."""

from localcluster import kueue_queues
from localcluster.kueue_queues import KUEUE, Queue
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
            more={"cpu": "1000", "memory": "10Ti", "ephemeral-storage": "10Ti"},
            preemption=within,
        )
        self._paths += kueue_queues.apply(self._world.api, made)

    def clear(self):
        for path in reversed(self._paths):
            self._world.wait(lambda path=path: deleted(self._world.api, path), bool)


def workloads(world, name):
    (group,) = world.service.workflow(name)["groups"]
    selector = f"{names.GROUP_LABEL}={group['uuid'].replace('-', '')}"
    path = f"{KUEUE}/namespaces/{world.namespace}/workloads"
    return world.api.list(path, query={"labelSelector": selector})[0]


def places(world, pods, label):
    world.view.load_nodes()
    return [world.view.domain(pod["spec"]["nodeName"], label) for pod in pods]


def assert_pairs_apart(world, pods, label):
    """Four pods in rank are two pairs, each in a domain of its own."""
    a, b, c, d = places(world, pods, label)
    assert (a == b, c == d, a != c) == (True, True, True)


def in_rank(pods):
    return sorted(pods, key=lambda pod: pod["metadata"]["labels"]["osmo.task_name"])


def bound(world, name):
    """The pods of a workflow in the order of their ranks."""
    return in_rank(world.bound_pods(name))


def complete(world, name):
    (group,) = world.service.workflow(name)["groups"]
    world.view.finish(world.namespace, group["uuid"])
    world.wait_group(name, "g", "COMPLETED")
    world.wait_released(name)
    assert (world.left(name), workloads(world, name)) == ([], [])
