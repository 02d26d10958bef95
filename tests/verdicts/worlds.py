"""Small clusters drawn at random, and the gangs that ask for them one after the other.

A world is a handful of nodes with a label of its own, some held by others, cordoned, tainted or without a
label, some with an NVLink channel that other work holds. Each of its gangs finds what the gangs before it
left.
"""

from dataclasses import dataclass, field, replace
from uuid import UUID, uuid4

from localcluster import nodes
from pools.clusters.capabilities import capabilities_at
from scheduling.fit.snapshot import Holding, Snapshot, amounts
from scheduling.fit.verdict import judge
from scheduling.terms import SchedulingTerms
from scheduling.topology.levels import Level
from scheduling.topology.requirements import Requirement
from workflows.feasibility.capacity.known_nodes import fit_node
from workflows.feasibility.capacity.node_snapshot import demand_of
from workflows.manifests.group import render_group
from workflows.values.placement import GroupPlacement, GroupValues, TaskPlacement, TaskTry

LEVELS = (Level("zone", "fit.test/zone"), Level("rack", "fit.test/rack"))
MINE = "fit.test/world"
GPUS = 4


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A node of a world; ``held`` GPUs are somebody's."""

    node: nodes.Node
    held: int
    cordoned: bool
    channel_held: bool = False


@dataclass(kw_only=True)
class World:
    """``placed`` are the gangs that have nodes, each with the nodes of its tasks."""

    name: str
    machines: list
    scheduler: str
    version: str
    namespace: str
    placed: list = field(default_factory=list)

    @property
    def capabilities(self):
        return capabilities_at(self.scheduler, self.version)

    def snapshot(self):
        seen = [_fit_node(machine, self._holdings(machine.node.name)) for machine in self.machines]
        return Snapshot.of(seen, LEVELS, paths=self.capabilities.by_paths)

    def verdict(self, group):
        return judge(self.snapshot(), demand_of(group, capabilities=self.capabilities))

    def hold(self, group, places):
        """The gang has these nodes, by task."""
        self.placed.append((group, places))

    def without_channels(self):
        """The names of nodes whose channel other work holds."""
        held = {machine.node.name for machine in self.machines if machine.channel_held}
        for group, places in self.placed:
            held |= {places[t.name] for t in group.tasks if t.placement.claims_channel}
        return sorted(held)

    def _holdings(self, name):
        for group, places in self.placed:
            for task in group.tasks:
                if places[task.name] == name:
                    asked = task.placement
                    yield Holding(
                        str(group.uuid),
                        amounts(
                            gpu=asked.gpu,
                            cpu=1000,
                            memory=2**30,
                            pods=1,
                            channels=int(asked.claims_channel),
                        ),
                    )

    def picture(self, group):
        lines = [
            f"{machine.node.name} {list(machine.node.labels.values())[1:]} held={machine.held}"
            f"{' cordoned' if machine.cordoned else ''}{' tainted' if machine.node.taints else ''}"
            f"{' channel held' if machine.channel_held else ''}"
            for machine in self.machines
        ]
        earlier = [
            f"placed {[(t.placement.gpu, places[t.name]) for t in before.tasks]}"
            for before, places in self.placed
        ]
        asks = [
            (t.placement.gpu, [f"{r.key} {r.group}" for r in t.placement.requirements]) for t in group.tasks
        ]
        return "\n  ".join([f"{self.name}: {asks}", *lines, *earlier])


def _fit_node(machine, holdings):
    manifest = nodes.manifest(machine.node)
    made = fit_node(
        machine.node.name,
        manifest["metadata"]["labels"],
        manifest["status"]["allocatable"],
        manifest["spec"].get("taints", []),
    )
    others = amounts(
        gpu=machine.held, cpu=1000 * bool(machine.held), memory=2**30 * bool(machine.held),
        pods=int(bool(machine.held)), channels=int(machine.channel_held),
    )  # fmt: skip
    somebody = (Holding("somebody", others),) if any(others) else ()
    return replace(made, holdings=(*somebody, *holdings), closed="cordoned" if machine.cordoned else "")


def draw_world(chance, *, name, channels, **where):
    """Four to eight nodes in two zones of two racks; with ``channels``, work of others may hold some."""
    machines = []
    for number in range(chance.randint(4, 8)):
        zone, rack = chance.choice("aab"), chance.choice(["r1", "r1", "r2"])
        labels = {MINE: name, LEVELS[0].label: zone, LEVELS[1].label: f"{zone}-{rack}"}
        if chance.random() < 0.12:
            del labels[chance.choice(LEVELS).label]
        taints = (nodes.Taint("fit.test/closed"),) if chance.random() < 0.1 else ()
        machines.append(
            Machine(
                node=nodes.Node(name=f"{name}-{number}", labels=labels, gpus=GPUS, taints=taints),
                held=chance.choice([0, 0, 0, 0, 2, GPUS]),
                cordoned=chance.random() < 0.1,
                channel_held=channels and chance.random() < 0.15,
            )
        )
    return World(name=name, machines=machines, **where)


def draw_group(chance, world, *, shapes, channels):
    """A gang of one of the shapes, by their names; with ``channels``, its tasks may claim one each."""
    shape = chance.choice(shapes)
    sets = [chance.randint(1, 3) for _ in range(chance.randint(1, 3))]
    claims = channels and chance.random() < 0.3
    size = GPUS if claims else chance.choice([1, 2, GPUS])
    tasks = []
    if shape == "equal slices":
        sets = [sets[0]] * len(sets)
    for number, count in enumerate(sets):
        gpus = chance.choice([1, 2, GPUS]) if shape == "mixed" else size
        requirements = SHAPES[shape](number)
        tasks += [(gpus, requirements)] * count
    return group_of(world, tasks, claims=claims)


SHAPES = {
    "free": lambda number: (),
    "one zone": lambda number: (Requirement("zone", "z"),),
    "one rack": lambda number: (Requirement("rack", "r"),),
    "mixed": lambda number: (Requirement("rack", "r"),),
    "a rack each": lambda number: (Requirement("rack", f"r{number}"),),
    "a rack each and free tasks": lambda number: (Requirement("rack", f"r{number}"),) if number else (),
    "equal slices": lambda number: (Requirement("zone", "z"), Requirement("rack", f"r{number}")),
    "racks in one zone": lambda number: (Requirement("zone", "z"), Requirement("rack", f"r{number}")),
    "preferred rack": lambda number: (Requirement("rack", f"r{number}", required=False),),
}
"""By name, the requirements of a task in the set of a number; sets of "equal slices" have one size."""


def group_of(world, tasks, *, claims=False):
    """A gang of tasks, each with its GPUs and requirements."""
    placement = GroupPlacement(
        terms=SchedulingTerms(
            installation=UUID(int=1),
            pool="fit",
            pool_revision=1,
            backend="fit",
            namespace=world.namespace,
            scheduler_type=world.scheduler,
            scheduler_name="default-scheduler",
            scheduler_version=world.version,
            queue=world.name if world.scheduler == "kueue" else "",
            levels=LEVELS,
        ),
        exec_timeout=3600,
        queue_timeout=3600,
        workflow_name=world.name,
        workflow_uuid=uuid4(),
        submitted_by="ann",
        nvlink=claims,
    )
    tries = tuple(
        TaskTry(
            task_uuid=uuid4(),
            name=f"t{number}",
            retry_id=0,
            placement=TaskPlacement(
                image="none",
                command=("none",),
                cpu=1,
                gpu=gpus,
                memory="1Gi",
                node_selector={MINE: world.name},
                requirements=requirements,
                claims_channel=claims,
            ),
        )
        for number, (gpus, requirements) in enumerate(tasks)
    )
    return GroupValues(uuid=uuid4(), name="g", generation=0, placement=placement, tasks=tries)


def holder(namespace, machine):
    """A pod that somebody bound to a node himself."""
    asked = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": str(machine.held)}
    container = {"name": "main", "image": "none", "resources": {"requests": asked, "limits": asked}}
    return {
        "metadata": {"name": f"held-{machine.node.name}", "namespace": namespace},
        "spec": {
            "nodeName": machine.node.name,
            "containers": [container],
            "tolerations": [{"operator": "Exists"}],
        },
    }


_rendered = {}


def rendered(group):
    """The objects of a gang, made once."""
    if group.uuid not in _rendered:
        _rendered[group.uuid] = render_group(group)
    return _rendered[group.uuid]
