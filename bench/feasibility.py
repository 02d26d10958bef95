"""What the verdict adds to a submission: the same workflow where thousands of nodes are known and where none.

The mix is a gang of 4 tasks and one of 64, each with topology and without, asked with ``feasibility=only`` in
a process of its own (``pool_nodes``), so that nothing but reading the nodes and judging them makes the
difference. Of ten racks nine are in use by gangs of 4, once alone and once beside other tenants' pods on
every node. Before each request a task ends on one node and one begins on another. Every gang has a place now,
so no order is sought. The first request of each size, which reads everything, is apart.
"""

import json
import statistics
import sys
import time
from itertools import count
from typing import Any

from bench import pool_nodes
from bench.site import Progress, started_site
from bench.workload import one_group

SIZES = (0, 5_000, 20_000)
ROUNDS = 15
MIX = {"4": (4, 4), "4 without topology": (4, 0), "64": (64, 8), "64 without topology": (64, 0)}
"""Tasks of a gang, and of each of its sets."""
POOL = "feasibility"
LIMITS = {"OSMO_SUBMITS_PER_MINUTE": "100000", "OSMO_ADDRESS_SUBMITS_PER_MINUTE": "100000"}

Figures = dict[str, dict[str, float]]
"""Milliseconds of each submission of the mix, by CPU and by the clock."""

_NUMBERS = count()


def measure(*, small: bool, progress: Progress) -> dict[str, Any]:
    sizes = [size // 5 for size in SIZES] if small else list(SIZES)
    with started_site(progress=progress, standins=False) as site:
        nodes = pool_nodes.measured_beside(site, "bench.feasibility", sizes, pool=POOL, more=LIMITS)
    return {"nodes": nodes, "verdict_cpu_ms": _added(nodes)}


def _added(nodes: dict[str, Figures]) -> Figures:
    """The time that the nodes add to each submission, and the median of the mix."""
    base = nodes["0"]["cpu_ms"]
    added = {
        size: {name: round(cpu - base[name], 1) for name, cpu in of["cpu_ms"].items()}
        for size, of in nodes.items()
        if size != "0"
    }
    return {size: of | {"p50": round(statistics.median(of.values()), 1)} for size, of in added.items()}


def _measured(client: Any, sizes: list[int]) -> dict[str, Figures]:
    figures = {}
    for size in sizes:
        for others in (False, True) if size else (False,):
            cluster = pool_nodes.write_nodes(POOL, size)
            pool_nodes.occupy(client, POOL, size)
            if others:
                pool_nodes.write_others(cluster, size)
            figures[f"{size} with others" if others else str(size)] = _rounds(client, size=size)
    return figures


def _rounds(client: Any, *, size: int) -> Figures:
    first, _ = _ask(client, *MIX["4"], size=size)
    rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in MIX}
    for name, gang in MIX.items():
        for _ in range(ROUNDS):
            _change_one_task()
            rounds[name].append(_ask(client, *gang, size=size))
    return {
        unit: {name: round(statistics.median(of[at] for of in rounds[name]), 1) for name in MIX}
        for at, unit in enumerate(("cpu_ms", "ms"))
    } | {"first": {"cpu_ms": round(first, 1)}}


def _ask(client: Any, tasks: int, sets_of: int, *, size: int) -> tuple[float, float]:
    """Milliseconds of one request, of CPU and by the clock."""
    text = one_group(tasks, name=f"f{tasks}-{sets_of}-{next(_NUMBERS)}", gpu=8, sets_of=sets_of)
    path = f"/api/pool/{POOL}/workflow?feasibility=only"
    began, cpu = time.perf_counter(), time.process_time()
    answer = client.post(path, json.dumps({"file": text}), content_type="application/json")
    spent, elapsed = time.process_time() - cpu, time.perf_counter() - began
    verdict = answer.json()["feasibility"][0]["verdict"]
    if verdict != ("now" if size else "unknown"):
        raise RuntimeError(f"with {size} nodes the verdict is {verdict}")
    return spent * 1000, elapsed * 1000


def _change_one_task() -> None:
    """Let a task end, and that which ended before run again."""
    from workflows.models import Task  # noqa: PLC0415 -- after django.setup

    ended = list(Task.objects.filter(status="COMPLETED").values_list("pk", flat=True))
    running = Task.objects.filter(status="RUNNING").order_by("pk").values_list("pk", flat=True)[:1]
    Task.objects.filter(pk__in=list(running)).update(status="COMPLETED")
    Task.objects.filter(pk__in=ended).update(status="RUNNING")


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_measured(pool_nodes.client(), [int(size) for size in sys.argv[1:]])))
