"""Random worlds that stand up in the local cluster. ``FIT_SEED`` draws others."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from localcluster import nodes
from tests.verdicts.worlds import MINE, holder

SEED = int(os.environ.get("FIT_SEED", "7"))
SECONDS = 150.0


def threads(act, items):
    with ThreadPoolExecutor(max_workers=8) as pool:
        return list(pool.map(act, items))


def stand_up(worlds, namespace, add_nodes, scheduler):
    """Make the nodes and what others hold of them, and wait until Kubernetes' scheduler knows both.

    It watches nodes and pods by streams of their own, each in the order of the writes.
    """
    api = scheduler.api
    made = iter(add_nodes([machine.node for world in worlds for machine in world.machines]))
    for world in worlds:
        world.machines = [replace(machine, node=next(made)) for machine in world.machines]
    machines = [machine for world in worlds for machine in world.machines]
    pods = f"/api/v1/namespaces/{namespace}/pods"
    threads(lambda m: api.create(pods, holder(namespace, m)), [m for m in machines if m.held])
    threads(
        lambda m: api.patch(f"{nodes.PATH}/{m.node.name}", {"spec": {"unschedulable": True}}),
        [m for m in machines if m.cordoned],
    )
    (node,) = add_nodes([nodes.Node(name="last", labels={MINE: namespace}, gpus=0)])
    spec = {"nodeSelector": dict(node.labels), "containers": [{"name": "main", "image": "none"}]}
    api.create(pods, {"metadata": {"name": "last"}, "spec": spec})
    until = time.monotonic() + SECONDS
    while not api.get(f"{pods}/last")["spec"].get("nodeName"):
        assert time.monotonic() < until, "the scheduler binds nothing"
        time.sleep(0.05)
    threads(scheduler.prepare, worlds)
