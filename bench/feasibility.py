"""What the verdict adds to a submission: the same workflow where thousands of nodes are known and where none.

Asked in a process of its own that loads the service's Django with the settings of a running stack, so that
nothing but reading the nodes and judging them makes the difference. Their rows are written there, each with
as many labels as nodes carry, since nobody needs 5,000 machines for it; the other processes are stopped. CPU
time of the service, which a busy machine changes little, and the clock, which has PostgreSQL's time in it.

The mix is a gang of 4 tasks and one of 64, each with topology and without, asked with
``feasibility=only``. Of ten racks nine are in use by gangs of 4, once alone and once beside other tenants'
pods on every node. Before each request a task ends on one node and one begins on another. Every gang has a
place now, so no order is sought. What quota and queue cost is part of the whole and told beside it; the first
request of each size, which reads everything, is apart.
"""

import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from bench import pool_nodes
from bench.site import Progress, started_site
from bench.workload import one_group

SIZES = (0, 5_000, 20_000)
ROUNDS = 15
MIX = {"4": (4, 4), "4 without topology": (4, 0), "64": (64, 8), "64 without topology": (64, 0)}
"""Tasks of a gang, and of each of its sets."""
POOL = "feasibility"

Figures = dict[str, dict[str, float]]
"""Milliseconds of each submission of the mix, by CPU and by the clock."""


def measure(*, small: bool, progress: Progress) -> dict[str, Any]:
    sizes = [size // 5 for size in SIZES] if small else list(SIZES)
    with started_site(progress=progress, standins=False) as site:
        more = {"BENCH_TOKEN": site.running.token}
        more |= {"OSMO_SUBMITS_PER_MINUTE": "100000", "OSMO_ADDRESS_SUBMITS_PER_MINUTE": "100000"}
        figures: dict[str, Figures] = pool_nodes.measured_beside(
            site, "bench.feasibility", sizes, pool=POOL, more=more
        )
        servers = site.servers()
    return {"servers": servers, "nodes": figures, "verdict_cpu_ms": _added(figures, base=str(sizes[0]))}


def _added(figures: dict[str, Figures], *, base: str) -> dict[str, dict[str, float]]:
    """What the nodes add to each submission without quota and queue, and the median of the mix."""
    added = {
        size: {
            name: round(cpu - of["queue_cpu_ms"][name] - figures[base]["cpu_ms"][name], 1)
            for name, cpu in of["cpu_ms"].items()
        }
        for size, of in figures.items()
        if size != base
    }
    return {size: of | {"p50": round(statistics.median(of.values()), 1)} for size, of in added.items()}


def _measured(sizes: list[int], token: str) -> dict[str, Figures]:
    from django.test import Client  # noqa: PLC0415 -- after django.setup

    from web.process_memory import settle  # noqa: PLC0415 -- the same

    settle()  # as the web processes are
    _time_the_queue()
    client = Client(headers={"Authorization": f"Bearer {token}", "Host": "127.0.0.1"})
    figures = {}
    for size in sizes:
        for others in (False, True) if size else (False,):
            cluster = pool_nodes.write_nodes(POOL, size)
            pool_nodes.occupy(client, POOL, size)
            if others:
                pool_nodes.write_others(cluster, size)
            before = _resident_mib()
            name = f"{size} with others" if others else str(size)
            figures[name] = _rounds(client, size=size) | {
                "resident": {"mib": round(_resident_mib() - before, 1)}
            }
    return figures


def _rounds(client: Any, *, size: int) -> Figures:
    first, *_ = _ask(client, MIX["4"], size=size)
    rounds: dict[str, list[tuple[float, float, float]]] = {}
    for name, gang in MIX.items():
        rounds[name] = []
        for _ in range(ROUNDS):
            _change_one_task()
            rounds[name].append(_ask(client, gang, size=size))
    return {
        unit: {name: round(statistics.median(of[at] for of in rounds[name]), 1) for name in MIX}
        for at, unit in enumerate(("cpu_ms", "ms", "queue_cpu_ms"))
    } | {"first": {"cpu_ms": round(first, 1)}}


def _ask(client: Any, gang: tuple[int, int], *, size: int) -> tuple[float, float, float]:
    """Milliseconds of one request: of CPU, by the clock, and the CPU of it for quota and queue."""
    tasks, sets_of = gang
    text = one_group(tasks, name=f"f{tasks}-{sets_of}-{next(_NUMBERS)}", gpu=8, sets_of=sets_of)
    _QUEUE_SECONDS.clear()
    began, cpu = time.perf_counter(), time.process_time()
    answer = client.post(
        f"/api/pool/{POOL}/workflow?feasibility=only",
        json.dumps({"file": text}),
        content_type="application/json",
    )
    spent, elapsed = time.process_time() - cpu, time.perf_counter() - began
    verdict = answer.json()["feasibility"][0]["verdict"]
    if verdict != ("now" if size else "unknown"):
        raise RuntimeError(f"with {size} nodes the verdict is {verdict}")
    return spent * 1000, elapsed * 1000, sum(_QUEUE_SECONDS) * 1000


_NUMBERS = count()
_QUEUE_SECONDS: list[float] = []


def _time_the_queue() -> None:
    """Have the reading of queues, and of the groups before ours, note the CPU that it takes."""
    from workflows.feasibility import report  # noqa: PLC0415 -- after django.setup

    for name in ("read_queues", "read_groups_before"):
        setattr(report, name, _noting(getattr(report, name)))


def _noting(call: Callable[..., Any]) -> Callable[..., Any]:
    def noted(*args: Any, **kwargs: Any) -> Any:
        began = time.process_time()
        try:
            return call(*args, **kwargs)
        finally:
            _QUEUE_SECONDS.append(time.process_time() - began)

    return noted


def _change_one_task() -> None:
    """Let a task end, and that which ended before run again."""
    from workflows.models import Task  # noqa: PLC0415 -- after django.setup

    ended = list(Task.objects.filter(status="COMPLETED").values_list("pk", flat=True))
    running = Task.objects.filter(status="RUNNING").order_by("pk").values_list("pk", flat=True)[:1]
    Task.objects.filter(pk__in=list(running)).update(status="COMPLETED")
    Task.objects.filter(pk__in=ended).update(status="RUNNING")


def _resident_mib() -> float:
    """Memory of this process, when nothing is left to be collected."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def main() -> None:
    import django  # noqa: PLC0415 -- only the child needs it

    django.setup()
    sizes = [int(size) for size in sys.argv[1:]]
    sys.stdout.write(json.dumps(_measured(sizes, os.environ["BENCH_TOKEN"])))


if __name__ == "__main__":
    main()
