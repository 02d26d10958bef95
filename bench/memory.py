"""Memory of every process with 10,000 pods observed.

``rss`` is what the kernel counts as resident, added up over a server's processes; ``pss`` counts a page
that several processes share once, so it is what the machine has to have. "Observed" means that the
observer has written as many living pods as the cluster has, all of them Running. The first reading is
taken before any workflow, the second when everything has been still for a moment.
"""

import time
from typing import Any

import psycopg

from bench.site import Progress, Site, started_site
from bench.usage import SERVICE, Memory, memory
from bench.workload import one_group

PODS = 10_000
SMALL_PODS = 1_000
GROUPS = 10
NODES = 110
PATIENCE_SECONDS = 900.0
SETTLE_SECONDS = 5.0
POOL = BACKEND = "memory"


def measure(*, small: bool, progress: Progress) -> dict[str, Any]:
    pods = SMALL_PODS if small else PODS
    with started_site(progress=progress, standins=False) as site:
        site.add_nodes(POOL, count=NODES, pods=110)
        site.add_backend(BACKEND, "default")
        site.add_pool(POOL, backend=BACKEND, topology=False)
        servers, before = site.servers(), memory(site.supervisor)
        began = time.monotonic()
        for number in range(GROUPS):
            site.submit(POOL, one_group(pods // GROUPS, name=f"memory-{number}"))
        seconds = _wait_until_observed(site, pods, began=began, progress=progress)
        time.sleep(SETTLE_SECONDS)
        after = memory(site.supervisor)
    return {
        "servers": servers,
        "pods": pods,
        "groups": GROUPS,
        "seconds_until_observed_running": seconds,
        "service_mib": {name: _figures(after[name], before[name]) for name in SERVICE},
        "others_mib": {
            name: _figures(use, before[name]) for name, use in after.items() if name not in SERVICE
        },
    }


def _figures(after: Memory, before: Memory) -> dict[str, int]:
    return {
        "processes": after.processes,
        "rss": after.rss,
        "pss": after.pss,
        "rss_before": before.rss,
        "pss_before": before.pss,
    }


def _wait_until_observed(site: Site, pods: int, *, began: float, progress: Progress) -> float:
    url = site.running.settings.database_url
    query = (
        "SELECT count(*), count(*) FILTER (WHERE phase = 'Running') FROM workflows_observedpod WHERE NOT gone"
    )
    reported_at = time.monotonic()
    with psycopg.connect(url, autocommit=True) as connection:

        def observed() -> bool:
            nonlocal reported_at
            row = connection.execute(query).fetchone()
            observed_pods, run = row or (0, 0)
            if time.monotonic() - reported_at > 10:
                reported_at = time.monotonic()
                progress(f"memory: {observed_pods} of {pods} pods observed, {run} of them running")
            return bool(run == pods)

        site.wait(observed, seconds=PATIENCE_SECONDS, awaited=f"{pods} pods to be observed")
    return round(time.monotonic() - began, 1)
