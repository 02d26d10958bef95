"""GPUs that stand idle under each rule for who claims an NVLink channel. Pure: no server is started.

A node has one channel. A mix of lone tasks and gangs is placed on racks of such nodes, first come first
served, with later work going ahead where earlier work has no room. There is always more work than room, so
every idle GPU is one that nothing could use. ``every_gpu_task`` is the rule that the service had at first,
``auto`` the one that it has (``scheduling.nvlink.channel_claims``), ``nobody`` what the shapes of the tasks
alone cost: no claim at all, hence the best that any rule can reach.
"""

import heapq
import itertools
import random
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduling.nvlink import ChannelClaim, NvlinkTask, channel_claims

RACKS, SMALL_RACKS = 8, 1
NODES_OF_RACK = 18
GPUS_OF_NODE = 4
HOURS = 48.0
WARM_UP_HOURS = 4.0
SEEDS = (1, 2, 3)
QUEUE = 200
"""So many jobs wait at any time."""

MIX = (  # share of the jobs, their numbers of tasks, GPUs of a task, mean hours
    (0.40, (1,), (1,), 2.0),
    (0.20, (1,), (2,), 2.0),
    (0.10, (1,), (4,), 2.0),
    (0.10, (2, 4), (1, 2), 3.0),
    (0.20, (2, 4, 8, 16), (4,), 6.0),
)


@dataclass(frozen=True, slots=True)
class Job:
    tasks: int
    gpus: int  # of each task
    hours: float


@dataclass(slots=True)
class Node:
    rack: int
    free: int = GPUS_OF_NODE
    claimed: bool = False


Rule = Callable[[Job], bool]
Place = list[Node]


def auto(job: Job) -> bool:
    """The service's rule for a group of equal tasks without a word of their author."""
    tasks = [
        NvlinkTask(
            name=f"t{number}", gpus=job.gpus, word=None, platform="", platform_has_nvlink=True, path=()
        )
        for number in range(job.tasks)
    ]
    claims = channel_claims(tasks, group_word=None, has_domain=True)
    return any(claim is ChannelClaim.SEVERAL for claim in claims.values())


RULES: dict[str, Rule] = {"every_gpu_task": lambda _: True, "auto": auto, "nobody": lambda _: False}


def measure(*, small: bool) -> dict[str, Any]:
    racks = SMALL_RACKS if small else RACKS
    gpus = racks * NODES_OF_RACK * GPUS_OF_NODE
    runs = {name: [_run(rule, racks=racks, seed=seed) for seed in SEEDS] for name, rule in RULES.items()}
    return {
        "nodes": racks * NODES_OF_RACK,
        "gpus": gpus,
        "hours": HOURS,
        "seeds": list(SEEDS),
        "rules": {name: _figures(of_rule, gpus=gpus) for name, of_rule in runs.items()},
    }


def _figures(runs: "Sequence[Tally]", *, gpus: int) -> dict[str, Any]:
    idle = [gpus - run.busy / (HOURS - WARM_UP_HOURS) for run in runs]
    return {
        "idle_gpus": round(statistics.mean(idle), 1),
        "idle_share": round(statistics.mean(idle) / gpus, 4),
        "idle_share_by_seed": [round(mean / gpus, 4) for mean in idle],
        "idle_beside_a_claim": round(
            statistics.mean(run.beside / (HOURS - WARM_UP_HOURS) for run in runs), 1
        ),
    }


@dataclass(slots=True)
class Tally:
    """GPU hours that were used, and idle ones on nodes with a claim."""

    busy: float = 0.0
    beside: float = 0.0


@dataclass(slots=True)
class Cluster:
    nodes: list[Node]
    claims: Rule
    now: float = 0.0
    ends: list[tuple[float, int, Job, Place]] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def start(self, job: Job) -> bool:
        """Start a job if there is room for all of its tasks, those of a gang in one rack."""
        place = self._place(job)
        if place is None:
            return False
        claims = self.claims(job)
        for node in place:
            node.free -= job.gpus
            node.claimed = node.claimed or claims
        heapq.heappush(self.ends, (self.now + job.hours, next(self._numbers), job, place))
        return True

    def advance(self) -> None:
        """Go on to the next end of a job."""
        until = self.ends[0][0]
        self._count(until)
        self.now, _, job, place = heapq.heappop(self.ends)
        claims = self.claims(job)
        for node in place:
            node.free += job.gpus
            node.claimed = node.claimed and not claims

    def _count(self, until: float) -> None:
        hours = max(min(until, HOURS) - max(self.now, WARM_UP_HOURS), 0.0)
        self.tally.busy += hours * sum(GPUS_OF_NODE - node.free for node in self.nodes)
        self.tally.beside += hours * sum(node.free for node in self.nodes if node.claimed)

    def _place(self, job: Job) -> Place | None:
        """The nodes with the fewest free GPUs that will do; as often as they take a task."""
        claims, rooms = self.claims(job), Counter[int]()
        fitting = [n for n in self.nodes if n.free >= job.gpus and not (claims and n.claimed)]
        for node in fitting:
            rooms[node.rack] += 1 if claims else node.free // job.gpus
        racks = [rack for rack, room in rooms.items() if room >= job.tasks]
        if not racks:
            return None
        rack = min(racks, key=lambda rack: (rooms[rack], rack)) if job.tasks > 1 else None
        place: Place = []
        for node in sorted(fitting, key=lambda node: node.free):
            if rack is None or node.rack == rack:
                place += [node] * (1 if claims else node.free // job.gpus)
        return place[: job.tasks]


def _jobs(generator: random.Random) -> Iterator[Job]:
    shares = [kind[0] for kind in MIX]
    while True:
        _, tasks, gpus, hours = generator.choices(MIX, shares)[0]
        yield Job(generator.choice(tasks), generator.choice(gpus), generator.expovariate(1 / hours))


def _run(rule: Rule, *, racks: int, seed: int) -> Tally:
    """The same work for every rule of a seed."""
    jobs = _jobs(random.Random(seed))  # noqa: S311 -- a workload, not a secret
    cluster = Cluster([Node(number // NODES_OF_RACK) for number in range(racks * NODES_OF_RACK)], rule)
    waiting = list(itertools.islice(jobs, QUEUE))
    while cluster.now < HOURS:
        full: set[tuple[int, int]] = set()  # shapes without room now
        left = []
        for job in waiting:
            shape = (job.tasks, job.gpus)
            if shape in full or not cluster.start(job):
                full.add(shape)
                left.append(job)
        started = len(waiting) - len(left)
        waiting = left + list(itertools.islice(jobs, started))
        if not started:
            cluster.advance()
    return cluster.tally
