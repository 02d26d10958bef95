"""Submission reply beside a trivial write through the same stack.

All are POSTs with the same token through the same gunicorn, middleware, authentication, REST framework and
PostgreSQL: workflows of one task group of 4 and of 512 tasks with topology requirements, and the caller's
default pool, which is one row. Those of 512 are sent one at a time, written out and with a count. They take
turns in blocks. The workers are stopped meanwhile, so the figures are those of the reply alone; messages wait
in Redis, as they would for busy workers.
"""

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from typing import Any

from bench.site import Progress, Site, started_site
from bench.workload import counted_group, one_group

TASKS = 4
MANY_TASKS = 512
REQUESTS = 200
SMALL_REQUESTS = 40
BLOCKS = 4
CONCURRENCIES = (1, 8)
WARM_UP = 16
NAMES = 32
POOL = BACKEND = "submission"


def measure(*, small: bool, progress: Progress) -> dict[str, Any]:
    requests = SMALL_REQUESTS if small else REQUESTS
    report: dict[str, Any] = {"tasks": TASKS, "requests": requests, "trivial": "POST /api/profile/settings"}
    with started_site(progress=progress, standins=False) as site:
        site.add_nodes(POOL, count=8, gpus=4)
        site.add_backend(BACKEND, "kai")
        site.add_pool(POOL, backend=BACKEND, topology=True)
        for name in ("beat", "worker"):
            site.supervisor.stop_one(name)
        calls = _calls(site)
        for call in calls.values():  # every web process has loaded what it needs
            timed(call, count=WARM_UP, concurrency=max(CONCURRENCIES))
        for concurrency in CONCURRENCIES:
            report[f"concurrency_{concurrency}"] = _compare(calls, count=requests, concurrency=concurrency)
            progress(f"submission: concurrency {concurrency}: {report[f'concurrency_{concurrency}']}")
        for spelling, text in {"tasks": one_group, "counted": counted_group}.items():
            many = {"submission": _submission(site, tasks=MANY_TASKS, text=text), "trivial": calls["trivial"]}
            timed(many["submission"], count=len(CONCURRENCIES), concurrency=1)
            part = f"{spelling}_{MANY_TASKS}"
            report[part] = _compare(many, count=requests // BLOCKS, concurrency=1)
            progress(f"submission: {part}: {report[part]}")
    return report


def _calls(site: Site) -> dict[str, Callable[[], object]]:
    return {
        "submission": _submission(site, tasks=TASKS, text=one_group),
        "trivial": lambda: site.rest.post("/api/profile/settings", {"pool": POOL}),
    }


def _submission(site: Site, *, tasks: int, text: Callable[..., str]) -> Callable[[], object]:
    # users name their workflows differently; those of one name are numbered one after the other
    texts = cycle(text(tasks, name=f"many-{tasks}-{n}", gpu=4, sets_of=TASKS) for n in range(NAMES))
    return lambda: site.submit(POOL, next(texts))


def _compare(calls: dict[str, Callable[[], object]], *, count: int, concurrency: int) -> dict[str, Any]:
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(BLOCKS):
        for name, call in calls.items():
            times[name] += timed(call, count=count // BLOCKS, concurrency=concurrency)
    figures: dict[str, Any] = {name: percentiles(seconds) for name, seconds in times.items()}
    figures["ratio_p50"] = round(figures["submission"]["p50_ms"] / figures["trivial"]["p50_ms"], 2)
    figures["ratio_p95"] = round(figures["submission"]["p95_ms"] / figures["trivial"]["p95_ms"], 2)
    return figures


def timed(call: Callable[[], object], *, count: int, concurrency: int) -> list[float]:
    """Seconds of each of so many calls, so many at a time."""

    def timed_call(_: int) -> float:
        began = time.perf_counter()
        call()
        return time.perf_counter() - began

    with ThreadPoolExecutor(max_workers=concurrency) as pool:
        return list(pool.map(timed_call, range(count)))


def percentiles(seconds: list[float]) -> dict[str, float]:
    """p50 and p95 in milliseconds."""
    cuts = statistics.quantiles(seconds, n=20, method="inclusive")
    return {"p50_ms": round(statistics.median(seconds) * 1000, 1), "p95_ms": round(cuts[-1] * 1000, 1)}
