"""Fit: how long a verdict takes on a snapshot of many nodes, and whether that grows with them alone.

Pure calculation, no servers, measured in CPU time. Nodes stand in four levels (zone, spine, rack, clique), a
fifth of them busy; the gang has 512 tasks of a whole node each. Three gangs, one for each verdict: sets of 8
(fits now), sets of a whole rack of 16 (no rack is wholly free: not now) and sets of 17 (no rack is as large).
"""

import statistics
import time
from typing import Any

from scheduling.fit.demand import Demand
from scheduling.fit.fragmentation import fragmentation
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.snapshot import FitNode, Holding, Snapshot, amounts
from scheduling.fit.verdict import judge
from scheduling.levels import Level
from scheduling.requirements import Gang, GangTask, Requirement
from scheduling.tree import build_tree

LEVELS = tuple(Level(key, f"example.com/{key}") for key in ("zone", "spine", "rack", "clique"))
SIZES = (5_000, 20_000)
ROUNDS = 7
TASKS = 512


def measure(*, small: bool) -> dict[str, Any]:
    sizes = [size // 10 for size in SIZES] if small else list(SIZES)
    tasks = TASKS // 8 if small else TASKS
    figures = {str(size): _at(size, tasks) for size in sizes}
    first, last = (figures[str(size)] for size in (sizes[0], sizes[-1]))
    return {
        "tasks": tasks,
        "nodes": figures,
        "growth": {
            "nodes": sizes[-1] / sizes[0],
            "verdict": {
                name: round(last["verdicts"][name]["ms"] / first["verdicts"][name]["ms"], 2)
                for name in first["verdicts"]
            },
        },
    }


def _at(size: int, tasks: int) -> dict[str, Any]:
    nodes = [_node(number) for number in range(size)]
    snapshot = Snapshot.of(nodes, LEVELS, paths=True)
    verdicts = {}
    for name, per_set in (("eight", 8), ("whole_rack", 16), ("too_large", 17)):
        gang = _gang(per_set, tasks)
        verdicts[name] = {
            "verdict": judge(snapshot, gang).answer.value,
            "ms": _milliseconds(lambda gang=gang: judge(snapshot, gang)),
        }
    return {
        "snapshot_ms": _milliseconds(lambda: Snapshot.of(nodes, LEVELS, paths=True)),
        "fragmentation_ms": _milliseconds(lambda: fragmentation(snapshot)),
        "verdicts": verdicts,
    }


def _node(number: int) -> FitNode:
    rack = number // 16
    labels = {
        LEVELS[0].label: f"z{rack // 80}",
        LEVELS[1].label: f"s{rack // 8}",
        LEVELS[2].label: f"r{rack}",
        LEVELS[3].label: f"c{number // 8}",
    }
    busy = number % 5 == 0
    return FitNode(
        name=f"n{number:05}",
        labels=labels,
        allocatable=amounts(gpu=8, cpu=128_000, memory=2**40, storage=2**40, pods=110, channels=1),
        holdings=(Holding(f"w{number}", amounts(gpu=8, pods=1, channels=1), float(number)),) if busy else (),
    )


def _gang(per_set: int, tasks: int) -> GangDemand:
    demand = Demand.of(amounts(gpu=8, cpu=8_000, memory=2**30, pods=1, channels=1))
    members = tuple(
        GangTask(f"t{number}", 8, (Requirement("zone", "z"), Requirement("rack", f"r{number // per_set}")))
        for number in range(tasks - tasks % per_set)
    )
    gang = Gang("g", members)
    return GangDemand(build_tree(gang, LEVELS), {task.name: demand for task in members}, counts_largest=True)


def _milliseconds(call: Any) -> float:
    """The median of several rounds, of CPU time: what the code needs, whatever else runs."""
    milliseconds = []
    for _ in range(ROUNDS):
        began = time.process_time()
        call()
        milliseconds.append((time.process_time() - began) * 1000)
    return round(statistics.median(milliseconds), 1)
