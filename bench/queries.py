"""SQL statements of each list page at 20 and at 1,000 rows: the same number, or a page has a loop in it.

The pages are asked in a process of their own that loads the service's Django with the settings of the
running stack and counts what its test client makes the database do, authentication included. Workflows
and pools are made over REST before; the workers are stopped, since nothing of it should run.
"""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.site import POOL_LABEL, Progress, Site, started_site
from bench.workload import one_group
from localcluster.directories import CHECKOUT
from localcluster.supervisor import clean_environment

FEW, MANY = 20, 1000
SMALL_MANY = 100
AT_ONCE = 8
MOST_SECONDS = 120
POOL = BACKEND = "queries"


def measure(*, small: bool, progress: Progress) -> dict[str, Any]:
    many = SMALL_MANY if small else MANY
    with started_site(progress=progress, standins=False) as site:
        site.add_nodes(POOL, count=8)
        site.add_backend(BACKEND, "default")
        site.add_pool(POOL, backend=BACKEND, topology=False)
        for name in ("beat", "worker"):
            site.supervisor.stop_one(name)
        servers = site.servers()
        few_tasks, many_tasks = (_submit(site, tasks=count) for count in (FEW, many))
        _pools(site, FEW)
        first = _count(site, ["/api/pool", "/api/configs/pool", "/api/topology", "/api/configs/backend"])
        progress(f"queries: making {many} workflows and {many} pools")
        _pools(site, many)
        with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
            list(pool.map(lambda _: _submit(site, tasks=1), range(many)))
        counted = _count(
            site,
            [
                *first,
                f"/api/workflow?limit={FEW}",
                f"/api/workflow?limit={many}",
                f"/api/workflow/{few_tasks}",
                f"/api/workflow/{many_tasks}",
                f"/api/workflow/{few_tasks}/events",
                f"/api/workflow/{many_tasks}/events",
            ],
        )
    pages = {path: (first[path], counted[path]) for path in first}
    pages |= {
        "/api/workflow": (counted[f"/api/workflow?limit={FEW}"], counted[f"/api/workflow?limit={many}"]),
        "/api/workflow/{name}": (
            counted[f"/api/workflow/{few_tasks}"],
            counted[f"/api/workflow/{many_tasks}"],
        ),
    }
    return {
        "servers": servers,
        "rows": [FEW, many],
        "pages": {path: _page(*counts) for path, counts in sorted(pages.items())},
        "fixed": all(few["queries"] == more["queries"] for few, more in pages.values()),
    }


def _page(few: dict[str, float], many: dict[str, float]) -> dict[str, Any]:
    return {
        "queries": [few["queries"], many["queries"]],
        "ms": [round(few["ms"], 1), round(many["ms"], 1)],
    }


def _submit(site: Site, *, tasks: int) -> str:
    return site.submit(POOL, one_group(tasks, name="queries"))


def _pools(site: Site, count: int) -> None:
    """As many pools as that, alike but for their names."""
    settings = {"backend": BACKEND, "node_selector": {POOL_LABEL: POOL}, "platforms": {"gpu": {}}}

    def put_pool(number: int) -> None:
        site.rest.put(f"/api/configs/pool/queries-{number}", {"configs": settings})

    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        list(pool.map(put_pool, range(count - 1)))  # one is there already


def _count(site: Site, paths: Sequence[str]) -> dict[str, dict[str, float]]:
    """Queries and milliseconds of a GET of each path."""
    settings = site.running.settings.environment()
    done = subprocess.run(  # noqa: S603 -- our own module under our own interpreter
        [sys.executable, "-m", "bench.queries", *paths],
        cwd=CHECKOUT,
        env=clean_environment() | settings | {"BENCH_TOKEN": site.running.token, "OSMO_LOG_LEVEL": "WARNING"},
        stdout=subprocess.PIPE,
        timeout=MOST_SECONDS,
        check=True,
    )
    counted: dict[str, dict[str, float]] = json.loads(done.stdout)
    return counted


def _ask(paths: Sequence[str], token: str) -> dict[str, dict[str, float]]:
    from django.db import connection  # noqa: PLC0415 -- after django.setup
    from django.test import Client  # noqa: PLC0415
    from django.test.utils import CaptureQueriesContext  # noqa: PLC0415

    client = Client(headers={"Authorization": f"Bearer {token}", "Host": "127.0.0.1"})
    counted = {}
    for path in paths:
        client.get(path)  # what is read once in a process's life does not count
        began = time.perf_counter()
        with CaptureQueriesContext(connection) as queries:
            answer = client.get(path)
        if answer.status_code != 200:
            raise RuntimeError(f"GET {path} answers {answer.status_code}")
        counted[path] = {
            "queries": len(queries.captured_queries),
            "ms": (time.perf_counter() - began) * 1000,
        }
    return counted


def main() -> None:
    import os  # noqa: PLC0415

    import django  # noqa: PLC0415 -- only the child needs it

    django.setup()
    sys.stdout.write(json.dumps(_ask(sys.argv[1:], os.environ["BENCH_TOKEN"])))


if __name__ == "__main__":
    main()
