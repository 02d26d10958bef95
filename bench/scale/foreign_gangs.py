"""The part ``foreign_gangs``: what following gangs of others costs an observer beside 100,000 of their pods.

One cluster with as many pod groups as foreign pods and some gangs that wait. An observer lists it, and then
``follow_others`` is switched on: processor time until what is new is listed, memory after that, processor
time while nothing changes and for each change of a pod group. The observer is not begun anew for it: the
memory of two beginnings differs by more than what is measured here.
"""

import time
from collections.abc import Mapping
from typing import Any

from bench.scale.measuring import PATIENCE_SECONDS, SCHEDULER
from bench.scale.stand import Plan, Stand, difference, started_stand
from bench.site import Progress

FULL = Plan(
    clusters=1, nodes=5_000, foreign_per_node=20, run_seconds=1.0, foreign_groups=100_000, waiting_gangs=100
)
SMALL = Plan(
    clusters=1, nodes=500, foreign_per_node=20, run_seconds=1.0, foreign_groups=10_000, waiting_gangs=10
)
CHANGES = 100.0
"""Of pod groups, a second."""
SECONDS, SMALL_SECONDS = 20.0, 3.0
SETTLE_SECONDS = 10.0
ROWS = "SELECT count(*) FROM workflows_observedgang"


def measure(*, small: bool, progress: Progress) -> dict[str, Any]:
    plan, seconds = (SMALL, SMALL_SECONDS) if small else (FULL, SECONDS)
    (name,) = plan.names
    with started_stand(plan, progress=progress) as stand:
        stand.run(workers=1, observers=0)
        stand.add_cluster(name, scheduler=SCHEDULER)
        before = {"cpu.observer": 0.0, **stand.reading()}
        objects = plan.nodes * (1 + plan.foreign_per_node)
        stand.run(workers=1, observers=1)
        awaited = "nodes and pods to be listed"
        stand.wait(
            lambda: stand.sent()["listed"] - before["listed"] >= objects,
            seconds=PATIENCE_SECONDS,
            awaited=awaited,
        )
        without = _listed(stand, before, seconds=seconds)
        progress(f"foreign_gangs: without them {without}")
        before = stand.reading()
        stand.rest.post(f"/api/configs/backend/{name}", {"configs": {"follow_others": True}})
        stand.wait(
            lambda: stand.number(ROWS) == plan.waiting_gangs, seconds=PATIENCE_SECONDS, awaited="gangs"
        )
        followed = _listed(stand, before, seconds=seconds)
        progress(f"foreign_gangs: with them {followed}")
        changes = _changes(stand, seconds=seconds)
    return {
        "foreign_pods": plan.nodes * plan.foreign_per_node,
        "foreign_pod_groups": plan.foreign_groups,
        "waiting_gangs": plan.waiting_gangs,
        "without": without,
        "followed": followed,
        "change_of_a_pod_group": changes,
    }


def _listed(stand: Stand, before: Mapping[str, float], *, seconds: float) -> dict[str, float]:
    """The observer after a list, and while nothing happens."""
    time.sleep(SETTLE_SECONDS)
    spent = difference(before, stand.reading())
    idle = _window(stand, seconds)
    return {
        "cpu_seconds_until_listed": round(spent["cpu.observer"], 2),
        "memory_mib": stand.memory_mib()["observer-0"],
        "idle_cores": round(idle["cpu.observer"] / idle["seconds"], 4),
    }


def _changes(stand: Stand, *, seconds: float) -> dict[str, float]:
    """One change of a pod group, of which nearly none waits."""
    idle = _window(stand, seconds)
    stand.set_rates(groups=CHANGES)
    busy = _window(stand, seconds)
    stand.set_rates(groups=0.0)
    count = max(1.0, busy["groups_sent"])
    return {
        "count": int(busy["groups_sent"]),
        "cpu_ms": round((busy["cpu.observer"] - idle["cpu.observer"]) / count * 1000, 3),
        "rows_written": round(max(0.0, busy["rows_written"] - idle["rows_written"]) / count, 3),
    }


def _window(stand: Stand, seconds: float) -> dict[str, float]:
    before = stand.reading()
    time.sleep(seconds)
    return difference(before, stand.reading())
