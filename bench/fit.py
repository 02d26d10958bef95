"""Fit: how long a verdict takes on a snapshot of many nodes, and whether that grows with them alone.

Pure calculation, no servers, measured in CPU time. Nodes stand in four levels (zone, spine, rack, clique), a
fifth of them busy; the gang has 512 tasks of a whole node each. Three gangs, one for each verdict: sets of 8
(fits now), sets of a whole rack of 16 (no rack is wholly free: not now) and sets of 17 (no rack is as large).

*Orders*: all racks are full but a few, and a gang of unlike sets fills these only in another order of its
sets than the usual one. Of two racks and six sets that order is found; of eight racks and 24 sets it is
sought until the limit, which is the most that a search can cost. Each with and without the search.
"""

import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
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
FEW_ROUNDS = 3  # of what takes seconds
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
        "orders": {str(sizes[0]): _orders_at(sizes[0])},
    }


ORDERS = {"found": (2, (8, 6, 6, 4, 4, 4)), "not_found": (8, (7,) * 8 + (5,) * 8 + (4,) * 8)}


def _orders_at(size: int) -> dict[str, Any]:
    figures = {}
    for name, (racks, sizes) in ORDERS.items():
        nodes = [_node(number, full=number >= racks * 16) for number in range(size)]
        snapshot = Snapshot.of(nodes, LEVELS, paths=True)
        without = _unlike(sizes)
        gang = replace(without, is_orderable=True)
        verdict = judge(snapshot, gang)
        figures[name] = {
            "tasks": sum(sizes),
            "verdict": verdict.answer.value,
            "another_order": bool(verdict.order),
            "ms": _milliseconds(lambda s=snapshot, g=gang: judge(s, g), rounds=FEW_ROUNDS),
            "ms_without": _milliseconds(lambda s=snapshot, g=without: judge(s, g), rounds=FEW_ROUNDS),
        }
    return figures


def _unlike(sizes: Sequence[int]) -> GangDemand:
    """A gang of sets of these sizes, each in one rack."""
    demand = Demand.of(amounts(gpu=8, cpu=8_000, memory=2**30, pods=1, channels=1))
    members = tuple(
        GangTask(f"t{at}-{number}", 8, (Requirement("rack", f"r{at:02}"),))
        for at, size in enumerate(sizes)
        for number in range(size)
    )
    tree = build_tree(Gang("g", members), LEVELS)
    return GangDemand(tree, {task.name: demand for task in members}, counts_largest=True)


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


def _node(number: int, *, full: bool | None = None) -> FitNode:
    rack = number // 16
    labels = {
        LEVELS[0].label: f"z{rack // 80}",
        LEVELS[1].label: f"s{rack // 8}",
        LEVELS[2].label: f"r{rack}",
        LEVELS[3].label: f"c{number // 8}",
    }
    busy = number % 5 == 0 if full is None else full
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


def _milliseconds(call: Any, *, rounds: int = ROUNDS) -> float:
    """The median of several rounds, of CPU time: what the code needs, whatever else runs."""
    milliseconds = []
    for _ in range(rounds):
        began = time.process_time()
        call()
        milliseconds.append((time.process_time() - began) * 1000)
    return round(statistics.median(milliseconds), 1)
