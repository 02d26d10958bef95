"""Small clusters drawn in ASCII, and what the KAI stand-in makes of them.

A drawing is a list of ``path: nodes`` lines; the path's parts are the values of the labels zone, spine, rack
(as ``levels`` says), ``-`` for a label the nodes lack, ``x`` after a node's name for one that is busy:

    a/r1: n1 n2 n3x
    a/- : n4
"""

import dataclasses
import itertools

from localcluster.standins.kai.cycle import schedule
from localcluster.standins.kai.values import (
    GPU,
    Claim,
    ClaimRequest,
    Constraint,
    Device,
    Node,
    Pod,
    PodClaim,
    PodGroup,
    Queue,
    QueueLimit,
    Shape,
    Snapshot,
    SubGroup,
    Topology,
)
from localcluster.standins.quantities import UNIT

LEVELS = ("topo/zone", "topo/rack")
UNLIMITED = QueueLimit(quota=-1, limit=-1)
NOW = 1_000_000.0


def amounts(gpus=1, cpu=1, memory=1):
    return {GPU: gpus * UNIT, "cpu": cpu * UNIT, "memory": memory * UNIT, "pods": UNIT}


def shape(gpus=1, **more):
    wanted = {name: amount for name, amount in amounts(gpus=gpus).items() if amount}
    return Shape(tuple(sorted(wanted.items())), **more)


def node(name, labels=None, gpus=1, **more):
    room = amounts(gpus=gpus, cpu=16, memory=64) | {"pods": 110 * UNIT}
    return Node(name, {"kubernetes.io/hostname": name, **(labels or {})}, room, **more)


def draw(picture, levels=LEVELS, gpus=1):
    """Return the nodes of a drawing and the pods that make some of them busy."""
    nodes, busy = [], []
    for line in filter(str.strip, picture.splitlines()):
        path, _, names = line.partition(":")
        values = [part.strip() for part in path.split("/")]
        labels = {level: value for level, value in zip(levels, values, strict=True) if value != "-"}
        for word in names.split():
            name = word.removesuffix("x")
            nodes.append(node(name, labels, gpus=gpus))
            if word.endswith("x"):
                busy.append(
                    pod(
                        f"busy-{name}",
                        group="busy",
                        node=name,
                        state="active",
                        is_kai=False,
                        shape=shape(gpus),
                    )
                )
    return tuple(nodes), tuple(busy)


def pod(name, *, group="g", state="pending", namespace="ns", **more):
    more.setdefault("shape", shape())
    return Pod(
        namespace=namespace,
        name=name,
        uid=f"uid-{namespace}-{name}",
        created="t0",
        state=state,
        group=group,
        **more,
    )


def pods(count, prefix="p", **more):
    return tuple(pod(f"{prefix}{number:03}", **more) for number in range(count))


def group(name="g", *, namespace="ns", **more):
    more = {"queue": "q", "created": "t0", **more}
    return PodGroup(namespace=namespace, name=name, uid=f"uid-{namespace}-{name}", **more)


def both(topology, level):
    """A required level with the equal preferred level that "Preferred beside required" makes necessary."""
    return Constraint(topology, required=level, preferred=level)


def leaf(name, least, constraint=None, parent=None):
    return SubGroup(name, least, parent, constraint)


def world(picture, *, levels=LEVELS, gpus=1, topologies=None, **more):
    """A snapshot of the drawing, an unlimited queue and, unless told, a Topology ``t`` of all levels."""
    nodes, busy = draw(picture, levels=levels, gpus=gpus)
    more["pods"] = (*busy, *more.get("pods", ()))
    more.setdefault("queues", (Queue("q", cpu=UNLIMITED, memory=UNLIMITED, gpu=UNLIMITED),))
    cut = (Topology("t", tuple(levels)),) if topologies is None else topologies
    return Snapshot(now=NOW, nodes=nodes, topologies=cut, **more)


def run(snapshot, *, version="0.13", **more):
    return schedule(snapshot, version=version, **more)


def placed(decisions):
    """Pod name to node name."""
    return {binding.pod.name: binding.node for binding in decisions.bindings}


def domains(decisions, snapshot, level):
    """The label values of the nodes that got pods, sorted, one entry per pod."""
    labels = {each.name: each.labels for each in snapshot.nodes}
    return sorted(labels[binding.node].get(level, "-") for binding in decisions.bindings)


def message(decisions):
    """The message of the one group condition that was written."""
    (written,) = decisions.group_conditions
    return written.conditions[-1]["message"]


def after(snapshot, decisions, seconds=1.0):
    """The next snapshot, once everything decided has been done."""
    nodes = {binding.pod.uid: binding.node for binding in decisions.bindings}
    gone = {eviction.pod.uid for eviction in decisions.evictions}
    conditions = {each.group.uid: each.conditions for each in decisions.group_conditions}
    marks = {each.group.uid: each.since for each in decisions.stale_marks}
    moved = tuple(
        dataclasses.replace(each, state="active", node=nodes[each.uid]) if each.uid in nodes else each
        for each in snapshot.pods
        if each.uid not in gone
    )
    groups = tuple(
        dataclasses.replace(
            each,
            conditions=conditions.get(each.uid, each.conditions),
            stale_since=marks.get(each.uid, each.stale_since),
        )
        for each in snapshot.groups
    )
    return dataclasses.replace(snapshot, now=snapshot.now + seconds, pods=moved, groups=groups)


def reasons(decisions, kind=None):
    """Reasons of events, in order, without repetition."""
    found = (event.reason for event in decisions.events if kind in (None, event.kind))
    return [reason for reason, _ in itertools.groupby(found)]


def edit(snapshot, **changes):
    """Replace fields of the only group."""
    (only,) = snapshot.groups
    return dataclasses.replace(snapshot, groups=(dataclasses.replace(only, **changes),))


CHANNEL = "compute-domain-default-channel.nvidia.com"
DRIVER = "compute-domain.nvidia.com"
CLASSES = {
    CHANNEL: (
        f"device.driver == '{DRIVER}'",
        f"device.attributes['{DRIVER}'].type == 'channel' && device.attributes['{DRIVER}'].id == 0",
    )
}


def channels(*names):
    return tuple(
        device
        for name in names
        for device in (
            Device(DRIVER, name, "channel-0", name, {"type": "channel", "id": 0}),
            Device(DRIVER, name, "daemon-0", name, {"type": "daemon"}),
        )
    )


def claiming(count, *, prefix="p", gpus=1):
    members = pods(count, prefix, shape=shape(gpus, claims=1))
    members = tuple(dataclasses.replace(p, claims=(PodClaim("cd", f"{p.name}-cd"),)) for p in members)
    claims = tuple(
        Claim("ns", f"{p.name}-cd", f"uid-{p.name}", (ClaimRequest("channel", CHANNEL),)) for p in members
    )
    return members, claims


def two_halves(*, waiting=None, **more):
    """Two nodes of 8 GPUs, each with a running pod of 4, and a third pod that asks for 8."""
    groups = tuple(group(name, min_member=1, created=f"t{n}") for n, name in enumerate(("x", "y")))
    asking = group("big", min_member=1, created="t9", **(waiting or {}))
    running = tuple(
        pod(name, group=name, state="active", node=node, shape=shape(4))
        for name, node in (("x", "n0"), ("y", "n1"))
    )
    members = (*running, pod("big", group="big", shape=shape(8)))
    return world("a/r1: n0 n1", gpus=8, groups=(*groups, asking), pods=members, **more)
