"""Processor time of pages that show thousands of nodes, and of a workflow of a thousand tasks.

Asked in a process of its own through Django's test client, with the settings of a running stack whose other
processes are stopped. The rows of nodes, and of gangs of 4 on nine racks of ten, are written there. CPU is
that of the process that answers, without PostgreSQL, which is told beside it as real time. A refresh asks
again with the tag of the page, and nothing has changed.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Mapping
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
        figures: dict[str, Figures] = pool_nodes.measured_beside(site, "bench.pages", sizes, pool=POOL)
        servers = site.servers()
    return {"servers": servers, "nodes": figures}


def _measured(sizes: list[int]) -> dict[str, Figures]:
    from django.contrib.auth.models import User  # noqa: PLC0415 -- after django.setup
    from django.test import Client  # noqa: PLC0415 -- the same

    from web.process_memory import settle  # noqa: PLC0415 -- the same

    settle()  # as the web processes are
    user, _ = User.objects.get_or_create(username="root", is_superuser=True, is_staff=True)
    client = Client(headers={"Host": "127.0.0.1"})
    client.force_login(user)
    return {str(size): _of_size(client, size) for size in sizes}


def _of_size(client: Any, size: int) -> Figures:
    pool_nodes.write_nodes(POOL, size)
    pool_nodes.occupy(client, POOL, size)
    body = {"file": one_group(TASKS, name="thousand", gpu=8)}
    name = client.post(f"/api/pool/{POOL}/workflow", json.dumps(body), content_type="application/json").json()
    return {
        kind: figures
        for kind, path in _addresses(name["name"]).items()
        for kind, figures in _of_page(client, kind, path)
    }


def _addresses(workflow: str) -> Mapping[str, str]:
    return {
        "map": f"/ui/pools/{POOL}/map",
        "pool": f"/ui/pools/{POOL}",
        "page of a gang": f"/ui/workflows/{workflow}",
        "detail of a gang": f"/api/workflow/{workflow}",
    }


def _of_page(client: Any, kind: str, path: str) -> list[tuple[str, dict[str, float]]]:
    pairs = [(kind, _timed(client, path, {}, code=200))]
    tag = client.get(path).headers.get("ETag")
    if tag:
        pairs.append(
            (f"{kind}, refresh without news", _timed(client, path, {"If-None-Match": tag}, code=304))
        )
    return pairs


def _timed(client: Any, path: str, headers: dict[str, str], *, code: int) -> dict[str, float]:
    cpu, times, kib = [], [], 0.0
    for _ in range(REQUESTS + 1):
        began = time.process_time(), time.perf_counter()
        answer = client.get(path, headers=headers)
        cpu.append(1000 * (time.process_time() - began[0]))
        times.append(1000 * (time.perf_counter() - began[1]))
        if answer.status_code != code:
            raise RuntimeError(f"GET {path} answers {answer.status_code} instead of {code}")
        kib = len(answer.content) / 1024
    p95 = sorted(times[1:])[int(0.95 * REQUESTS)]  # the first reads what is read once in a process's life
    return {
        "cpu_ms": round(statistics.median(cpu[1:]), 1),
        "p95_ms": round(p95, 1),
        "kib": round(kib, 1),
    }


def main() -> None:
    """Print the figures of the database that the environment names; see ``measure``."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "osmo_topology.settings"
    import django  # noqa: PLC0415 -- only in this process

    django.setup()
    sys.stdout.write(json.dumps(_measured([int(size) for size in sys.argv[1:]])))


if __name__ == "__main__":
    main()
