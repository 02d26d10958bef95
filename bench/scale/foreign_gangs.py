"""The part ``foreign_gangs``: what following gangs of others costs an observer beside 100,000 of their pods.

One cluster with as many pod groups as foreign pods and some gangs that wait. An observer begins twice, first
without ``follow_others`` and then with it: processor time until everything is listed, memory after that, and
processor time for each change of a pod group and while nothing changes.
"""

import time
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
        without = _observed(stand, gangs=0, seconds=seconds)
        progress(f"foreign_gangs: without them {without}")
        stand.rest.post(f"/api/configs/backend/{name}", {"configs": {"follow_others": True}})
        followed = _observed(stand, gangs=plan.waiting_gangs, seconds=seconds)
        progress(f"foreign_gangs: with them {followed}")
    return {
        "foreign_pods": plan.nodes * plan.foreign_per_node,
        "foreign_pod_groups": plan.foreign_groups,
        "waiting_gangs": plan.waiting_gangs,
        "without": without,
        "followed": followed,
    }


def _observed(stand: Stand, *, gangs: int, seconds: float) -> dict[str, float]:
    """An observer from its beginning."""
    stand.run(workers=1, observers=0)
    before, objects = stand.reading(), stand.plan.nodes * (1 + stand.plan.foreign_per_node)
    stand.run(workers=1, observers=1)

    def is_listed() -> bool:
        sent = stand.sent()
        groups = sent["groups_listed"] - before["groups_listed"] if gangs else stand.plan.foreign_groups
        listed = sent["listed"] - before["listed"] >= objects and groups >= stand.plan.foreign_groups
        return listed and stand.number(ROWS) == gangs

    stand.wait(is_listed, seconds=PATIENCE_SECONDS, awaited="everything to be listed")
    time.sleep(SETTLE_SECONDS)
    first = stand.reading()
    idle = _window(stand, seconds)
    stand.set_rates(groups=CHANGES)
    busy = _window(stand, seconds)
    stand.set_rates(groups=0.0)
    changes = max(1.0, busy["groups_sent"])
    of_changes = {
        "cpu_ms_per_change": round((busy["cpu.observer"] - idle["cpu.observer"]) / changes * 1000, 3),
        "rows_written_per_change": round((busy["rows_written"] - idle["rows_written"]) / changes, 3),
    }
    return {
        "cpu_seconds_until_listed": round(first["cpu.observer"], 2),
        "memory_mib": stand.memory_mib()["observer-0"],
        "idle_cores": round(idle["cpu.observer"] / idle["seconds"], 4),
        **(of_changes if gangs else {}),
    }


def _window(stand: Stand, seconds: float) -> dict[str, float]:
    before = stand.reading()
    time.sleep(seconds)
    return difference(before, stand.reading())
