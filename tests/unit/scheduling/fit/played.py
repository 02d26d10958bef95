"""Gangs as the stand-in for KAI places them in one cycle, on the nodes that a verdict was made for."""

from uuid import UUID

from localcluster.standins.kai import reader
from localcluster.standins.kai.cycle import schedule
from localcluster.standins.kai.values import GPU, Node, Pod, Queue, QueueLimit, Shape, Snapshot, Topology
from localcluster.standins.quantities import UNIT
from scheduling.backends.kai import Kai
from scheduling.gang.gang_form import GangForm
from tests.unit.scheduling.build import request
from tests.unit.scheduling.fit.worlds import POOL, demands

KAI = Kai()
UNLIMITED = QueueLimit(quota=-1, limit=-1)
EXTERNAL = "theirs"


def played(gangs, nodes, version, *, pool=POOL, external=False, wants=None, **form):
    """The node of every task that the stand-in binds, by gang and task; the first gang is the oldest.

    With ``external`` constraints name one Topology of all the pool's levels. ``form`` is every gang's.
    """
    groups, pods, topologies = [], [], {}
    if external:
        topologies[EXTERNAL] = Topology(EXTERNAL, tuple(level.label for level in pool))
    for number, gang in enumerate(gangs):
        changes = {"group": UUID(int=number + 1), "external_topology": EXTERNAL if external else ""}
        rendered = KAI.render(request(gang, pool, form=GangForm(**form), **changes))
        manifest = rendered.pod_groups[0]
        manifest["metadata"] |= {"uid": f"g{number}", "creationTimestamp": f"t{number}"}
        group = reader.pod_group(manifest)
        groups.append(group)
        topologies |= {t["metadata"]["name"]: reader.topology(t) for t in rendered.topologies}
        asked = demands(gang) if wants is None else wants[number]
        pods += [
            _pod(task.name, asked[task.name], rendered.pods[task.name], group, number) for task in gang.tasks
        ]
    return _bound(groups, pods, nodes, version, tuple(topologies.values()))


def played_object(manifest, pods, nodes, version, *, topologies):
    """The same for one pod group that somebody else wrote; each pod is its sub-group and its demand.

    ``topologies`` are the labels of each by its name.
    """
    manifest["metadata"] |= {"uid": "g", "creationTimestamp": "t"}
    group = reader.pod_group(manifest)
    pods = [
        Pod(
            namespace=group.namespace,
            name=f"p{number:03}",
            uid=f"0/p{number:03}",
            created=f"t{number:03}",
            state="pending",
            shape=_shape(demand.amounts),
            group=group.name,
            subgroup=part or None,
        )
        for number, (part, demand) in enumerate(pods)
    ]
    objects = tuple(Topology(name, labels) for name, labels in topologies.items())
    return _bound([group], pods, nodes, version, objects)


def _bound(groups, pods, nodes, version, topologies):
    cluster = Snapshot(
        now=0.0,
        nodes=tuple(_node(node) for node in nodes),
        pods=(*pods, *(busy for node in nodes for busy in _busy(node))),
        groups=tuple(groups),
        queues=(
            Queue("top", cpu=UNLIMITED, memory=UNLIMITED, gpu=UNLIMITED),
            Queue(groups[0].queue, "top", cpu=UNLIMITED, memory=UNLIMITED, gpu=UNLIMITED),
        ),
        topologies=topologies,
    )
    bindings = schedule(cluster, version=version).bindings
    return {tuple(binding.pod.uid.split("/")): binding.node for binding in bindings}


def _shape(amounts, others=(), selector=()):
    gpu, cpu, memory, _, pods, _ = amounts
    wanted = {GPU: gpu * UNIT, "cpu": cpu, "memory": memory * UNIT, "pods": pods * UNIT}
    wanted |= dict.fromkeys(others, UNIT)
    return Shape(
        tuple(sorted((name, amount) for name, amount in wanted.items() if amount)), selector=tuple(selector)
    )


def _pod(name, demand, parts, group, number):
    return Pod(
        namespace=group.namespace,
        name=f"{name}-{number}",
        uid=f"{number}/{name}",
        created=f"t{name}",
        state="pending",
        shape=_shape(demand.amounts, dict(demand.others), sorted(parts.node_labels.items())),
        group=group.name,
        subgroup=parts.labels.get("kai.scheduler/subgroup-name"),
    )


def _busy(node):
    used = [holding.amounts for holding in node.holdings] + ([node.others] if any(node.others) else [])
    for i, amounts in enumerate(used):
        name = f"b{i}-{node.name}"
        yield Pod("x", name, name, "t", "active", _shape(amounts), node=node.name, is_kai=False)


OTHERS = ("example.com/nic",)
"""Resources of which every node has plenty, and no verdict knows how much."""


def _node(node):
    gpus, cpu, memory, _, pods, _ = node.allocatable
    room = {GPU: gpus * UNIT, "cpu": cpu, "memory": memory * UNIT, "pods": pods * UNIT}
    room |= dict.fromkeys(OTHERS, 1000 * UNIT)
    return Node(node.name, node.labels, room, unschedulable=bool(node.closed))
