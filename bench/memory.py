"""Memory of every process with 10,000 pods observed.

``rss`` is what the kernel counts as resident, added up over a server's processes; ``pss`` counts a page
that several processes share once, so it is what the machine has to have. "Observed" means that the
observer has written as many living pods as the cluster has, all of them Running. The first reading is
taken before any workflow, the second when everything has been still for a moment.
"""

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from bench.site import Say, Site, site
from bench.workload import one_group

PODS = 10_000
SMALL_PODS = 1_000
GROUPS = 10
NODES = 110
PATIENCE_SECONDS = 900.0
SETTLE_SECONDS = 5.0
OURS = ("web", "worker", "beat", "observer")
POOL = BACKEND = "memory"


@dataclass(frozen=True, slots=True)
class Use:
    """One server with all its processes; MiB."""

    processes: int
    rss: int
    pss: int


def measure(*, small: bool, say: Say) -> dict[str, Any]:
    pods = SMALL_PODS if small else PODS
    with site(say=say, standins=False) as here:
        here.add_nodes(POOL, count=NODES, pods=110)
        here.add_backend(BACKEND, "default")
        here.add_pool(POOL, backend=BACKEND, topology=False)
        before = _all(here)
        began = time.monotonic()
        for number in range(GROUPS):
            here.submit(POOL, one_group(pods // GROUPS, name=f"memory-{number}"))
        seconds = _wait_until_observed(here, pods, began=began, say=say)
        time.sleep(SETTLE_SECONDS)
        after = _all(here)
    return {
        "pods": pods,
        "groups": GROUPS,
        "seconds_until_observed_running": seconds,
        "service_mib": {name: _shown(after[name], before[name]) for name in OURS},
        "others_mib": {name: _shown(use, before[name]) for name, use in after.items() if name not in OURS},
    }


def _shown(after: Use, before: Use) -> dict[str, int]:
    return {
        "processes": after.processes,
        "rss": after.rss,
        "pss": after.pss,
        "rss_before": before.rss,
        "pss_before": before.pss,
    }


def _wait_until_observed(here: Site, pods: int, *, began: float, say: Say) -> float:
    url = here.running.settings.database_url
    query = (
        "SELECT count(*), count(*) FILTER (WHERE phase = 'Running') FROM workflows_observedpod WHERE NOT gone"
    )
    told = time.monotonic()
    with psycopg.connect(url, autocommit=True) as connection:

        def observed() -> bool:
            nonlocal told
            row = connection.execute(query).fetchone()
            seen, run = row or (0, 0)
            if time.monotonic() - told > 10:
                told = time.monotonic()
                say(f"memory: {seen} of {pods} pods observed, {run} of them running")
            return bool(run == pods)

        here.wait(observed, seconds=PATIENCE_SECONDS, what=f"{pods} pods to be observed")
    return round(time.monotonic() - began, 1)


def _all(here: Site) -> dict[str, Use]:
    """Every server that the supervisor runs."""
    return {child.command.name: _use(child.pid) for child in here.supervisor.children}


def _use(leader: int) -> Use:
    """What a server uses with everything that it started (PostgreSQL's backends leave its session)."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
    family, size = {leader}, 0
    while len(family) > size:
        size = len(family)
        family |= {pid for pid, parent in parents.items() if parent in family}
    found = []
    for pid in family:
        with suppress(FileNotFoundError, ProcessLookupError):
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            found.append((_kib(rollup, "Rss"), _kib(rollup, "Pss")))
    return Use(len(found), sum(rss for rss, _ in found) // 1024, sum(pss for _, pss in found) // 1024)


def _kib(rollup: str, field: str) -> int:
    return next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith(f"{field}:"))
