"""Small clusters and gangs for tests of fit, and a search through every placement there is."""

from collections import Counter

from hypothesis import strategies as st

from scheduling.fit.demand import Demand
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.snapshot import FitNode, Holding, Snapshot, amounts
from scheduling.gang.tree import build_tree
from tests.unit.scheduling import build
from tests.unit.scheduling.gangs import sets_of

POOL = build.levels("zone rack")
ZONE, RACK = (level.label for level in POOL)


def node(name, labels, *, gpus=1, held=0, until=None, closed=""):
    """A node with GPUs, some of them held by one workflow called after the node."""
    holdings = (Holding(f"of-{name}", amounts(gpu=held, pods=1), until),) if held else ()
    return FitNode(
        name=name,
        labels=labels,
        allocatable=amounts(gpu=gpus, cpu=64_000, memory=2**40, pods=110, channels=1),
        holdings=holdings,
        closed=closed,
    )


def draw(picture, *, gpus=8):
    """Nodes from ``zone/rack: names`` lines; ``x`` behind a name: all held, ``-``: no such label."""
    nodes = []
    for line in filter(str.strip, picture.splitlines()):
        path, _, names = line.partition(":")
        zone, rack = (part.strip() for part in path.split("/"))
        labels = {key: value for key, value in ((ZONE, zone), (RACK, rack)) if value != "-"}
        for word in names.split():
            name = word.removesuffix("x")
            nodes.append(node(name, labels, gpus=gpus, held=gpus if word != name else 0))
    return Snapshot.of(nodes, POOL, paths=True)


def demands(gang, *, channel=False):
    """Each task asks for its GPUs and one core."""
    return {
        task.name: Demand.of(
            amounts(gpu=task.gpus, cpu=1000, memory=2**30, pods=1, channels=int(channel and task.gpus > 0))
        )
        for task in gang.tasks
    }


def gang_demand(gang, levels=POOL, *, counts_largest=True, channel=False, orderable=False, pinnable=False):
    tree = build_tree(gang, levels)
    return GangDemand(
        tree, demands(gang, channel=channel), counts_largest, is_orderable=orderable, is_pinnable=pinnable
    )


@st.composite
def clusters(draw, *, most=9, gpus=1, labelled=False):
    """Nodes in two zones of up to three racks; rack names repeat, labels may be missing, GPUs may be held."""
    nodes = []
    for number in range(draw(st.integers(1, most))):
        zone = draw(st.sampled_from(["a", "a", "b"] + ([] if labelled else [None])))
        rack = draw(st.sampled_from(["r1", "r1", "r2", "r3"] + ([] if labelled else [None])))
        labels = {key: value for key, value in ((ZONE, zone), (RACK, rack)) if value}
        has = gpus if gpus == 1 else draw(st.sampled_from([gpus // 2, gpus, gpus]))
        held = min(has, draw(st.sampled_from([0, 0, 0, gpus // 2, gpus])))
        nodes.append(node(f"n{number:02}", labels, gpus=has, held=held))
    return nodes


def exists(pool, gang, snapshot, *, empty=False):
    """Whether any assignment of tasks to nodes holds everything required, by trying them all."""
    return _Every(pool, gang, snapshot, empty=empty).place(list(gang.tasks), Counter(), {})


class _Every:
    def __init__(self, pool, gang, snapshot, *, empty):
        self.nodes = [n for n in snapshot.nodes if empty or not n.closed]
        self.free = {n.name: (n.allocatable if empty else n.free)[0] for n in self.nodes}
        self.hard = [(path, tasks) for path, (tasks, required) in sets_of(pool, gang).items() if required]
        keys = [level.key for level in pool]
        self.above = {key: [level.label for level in pool[: i + 1]] for i, key in enumerate(keys)}

    def place(self, tasks, taken, chosen):
        if not tasks:
            return True
        task, *rest = tasks
        tried = set()
        for node in self.nodes:
            left = self.free[node.name] - taken[node.name]
            looks = (tuple(sorted(node.labels.items())), left)
            if left < task.gpus or looks in tried:
                continue
            tried.add(looks)
            more = self.domains(node, task)
            if more is None or any(chosen.get(path, domain) != domain for path, domain in more.items()):
                continue
            if self.place(rest, taken + Counter({node.name: task.gpus}), {**chosen, **more}):
                return True
        return False

    def domains(self, node, task):
        """The domain each set of this task would be in on a node; None if the node lacks a label."""
        mine = [path for path, members in self.hard if task.name in members]
        found = {path: tuple(node.labels.get(label) for label in self.above[path[-1][0]]) for path in mine}
        return None if any(None in values for values in found.values()) else found


DRIVER_AND_WORKERS = build.gang("driver*4: rack! r", "w1 w2 w3*2: rack! r")


def rack(zone, name, *gpus):
    return [node(f"{zone}{name}{i}", {ZONE: zone, RACK: name}, gpus=g) for i, g in enumerate(gpus)]


MIXED = rack("a", "r1", 4, 2, 4, 2)


def snapshot(nodes):
    return Snapshot.of(nodes, POOL, paths=True)
