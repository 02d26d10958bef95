"""Processor time of pages that show thousands of nodes, and of a workflow of a thousand tasks.

Asked in a process of its own (``pool_nodes``), with gangs of 4 on nine racks of ten. CPU is that of the
process that answers, without PostgreSQL, which is told beside it as real time. A refresh asks again with the
tag of the page, and nothing has changed.
"""

import json
import statistics
import sys
import time
from typing import Any

from bench import pool_nodes
from bench.site import Progress, started_site
from bench.workload import one_group

SIZES = (5_000, 20_000)
REQUESTS = 40
TASKS = 1_000
POOL = "pages"

Figures = dict[str, dict[str, float]]


def measure(*, small: bool, progress: Progress) -> dict[str, Any]:
    sizes = [size // 5 for size in SIZES] if small else list(SIZES)
    with started_site(progress=progress, standins=False) as site:
        nodes = pool_nodes.measured_beside(site, "bench.pages", sizes, pool=POOL)
    return {"nodes": nodes}


def _of_size(client: Any, size: int) -> Figures:
    pool_nodes.write_nodes(POOL, size)
    pool_nodes.occupy(client, POOL, size)
    body = {"file": one_group(TASKS, name="thousand", gpu=8)}
    reply = client.post(f"/api/pool/{POOL}/workflow", json.dumps(body), content_type="application/json")
    workflow = reply.json()["name"]
    addresses = {
        "map": f"/ui/pools/{POOL}/map",
        "pool": f"/ui/pools/{POOL}",
        "page of a gang": f"/ui/workflows/{workflow}",
        "detail of a gang": f"/api/workflow/{workflow}",
    }
    figures = {}
    for name, path in addresses.items():
        figures[name] = _timed(client, path, {}, code=200)
        if tag := client.get(path).headers.get("ETag"):
            figures[f"{name}, refresh without news"] = _timed(client, path, {"If-None-Match": tag}, code=304)
    return figures


def _timed(client: Any, path: str, headers: dict[str, str], *, code: int) -> dict[str, float]:
    from pages.drawn import drawn_pages  # noqa: PLC0415 -- after django.setup

    cpu, times, kib = [], [], 0.0
    for _ in range(REQUESTS + 1):
        if not headers:
            drawn_pages.clear()  # a page that is requested without a tag is measured with its making
        began = time.process_time(), time.perf_counter()
        answer = client.get(path, headers=headers)
        cpu.append(1000 * (time.process_time() - began[0]))
        times.append(1000 * (time.perf_counter() - began[1]))
        if answer.status_code != code:
            raise RuntimeError(f"GET {path} answers {answer.status_code} instead of {code}")
        kib = len(answer.content) / 1024
    p95 = sorted(times[1:])[int(0.95 * REQUESTS)]  # the first reads what is read once in a process's life
    return {"cpu_ms": round(statistics.median(cpu[1:]), 1), "p95_ms": round(p95, 1), "kib": round(kib, 1)}


if __name__ == "__main__":
    browser = pool_nodes.client()
    sys.stdout.write(json.dumps({size: _of_size(browser, int(size)) for size in sys.argv[1:]}))
