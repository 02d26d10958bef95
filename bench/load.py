"""What the service holds under load: many callers at once, thousands of groups, 10,000 pods that change.

Four phases on one running stack. *Burst*: hundreds of callers submit at the same moment, three quarters of
them to one pool, whose bound on the backlog is set so low that some are told to come again. *Drain*: until
every accepted group is created, while a third pool gets one workflow of one task, to see what it waits beside
the crowd. *Fill*: big gangs until 10,000 pods run and are observed. *Change*: all of them end as fast as
sixteen connections can tell them to, until every group is released.

All the while the memory of each process, the queue and the observer's inbox are read every two seconds; what
is reported are the most.
"""

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Self

import psycopg
import urllib3

from bench.site import Progress, Site, namespace_of, started_site
from bench.submission import percentiles
from bench.usage import SERVICE, cpu_seconds, memory, spent
from bench.workload import many_groups, one_group

BACKEND, CROWDED, OTHER, QUIET = "load", "crowded", "other", "quiet"
NODES = 120
SAMPLE_SECONDS = 2.0
PATIENCE_SECONDS = 900.0
AT_ONCE = 16
FINISH = {"metadata": {"annotations": {"sim.osmo.local/run-for": "0s"}}}
WATCHED = (
    "osmo_topology_queue_messages",
    "osmo_topology_due_groups",
    "osmo_topology_due_age_seconds",
    "osmo_topology_observer_inbox_changes",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    callers: int
    groups: int  # of one workflow of the burst
    bound: int  # of the crowded pool's backlog
    pods: int
    gangs: int  # that fill up to ``pods``


FULL = Size(callers=400, groups=10, bound=2000, pods=10_000, gangs=10)
SMALL = Size(callers=60, groups=5, bound=150, pods=1_000, gangs=4)


def measure(*, small: bool, progress: Progress) -> dict[str, Any]:
    size = SMALL if small else FULL
    bounds = {"OSMO_POOL_BACKLOG_GROUPS": str(size.bound), "OSMO_BACKLOG_GROUPS": str(2 * size.bound)}
    with started_site(progress=progress, standins=False, more=bounds) as site:
        site.add_backend(BACKEND, "default")
        for pool in (CROWDED, OTHER, QUIET):
            site.add_nodes(pool, count=NODES if pool != QUIET else 1, pods=110)
            site.add_pool(pool, backend=BACKEND, topology=False)
        with _Sampler(site) as sampler:
            report = _phases(site, size, progress)
        return {"servers": site.servers(), **report, **sampler.report()}


def _phases(site: Site, size: Size, progress: Progress) -> dict[str, Any]:
    before = cpu_seconds(site.supervisor)
    progress(f"load: {size.callers} callers at once")
    burst = _burst(site, size)
    progress(f"load: {burst['answers']}; now until all is created")
    drain = _drain(site, progress)
    progress("load: gangs until enough pods run")
    fill = _fill(site, size, progress)
    progress("load: every pod ends")
    change = _change(site, progress)
    used = spent(before, cpu_seconds(site.supervisor))
    return {"burst": burst, "drain": drain, "fill": fill, "change": change, "cpu_seconds": used}


def _burst(site: Site, size: Size) -> dict[str, Any]:
    """All callers at the same moment, each with one workflow; nobody tries again."""
    start = threading.Barrier(size.callers)
    pool_manager = urllib3.PoolManager(maxsize=size.callers)
    body = {"file": many_groups(size.groups, name="burst")}

    def call(number: int) -> tuple[int, float, bool]:
        pool = OTHER if number % 4 == 0 else CROWDED
        address = f"{site.running.api_url}/api/pool/{pool}/workflow"
        start.wait()
        began = time.monotonic()
        answer = pool_manager.request(
            "POST", address, json=body, headers=site.rest.headers, timeout=120, retries=False
        )
        return answer.status, time.monotonic() - began, "Retry-After" in answer.headers

    with ThreadPoolExecutor(max_workers=size.callers) as pool:
        answers = list(pool.map(call, range(size.callers)))
    accepted = [seconds for status, seconds, _ in answers if status == 200]
    return {
        "callers": size.callers,
        "groups_each": size.groups,
        "answers": dict(Counter(str(status) for status, _, _ in answers)),
        "told_when_to_come_again": sum(
            has_retry_after for status, _, has_retry_after in answers if status == 429
        ),
        "accepted": percentiles(accepted),
        "refused": percentiles([s for status, s, _ in answers if status == 429] or [0.0, 0.0]),
        "most_ms": round(max(seconds for _, seconds, _ in answers) * 1000, 1),
    }


def _drain(site: Site, progress: Progress) -> dict[str, Any]:
    began = time.monotonic()
    waiting = _count(site, "released_at IS NULL AND created_in_cluster_at IS NULL")
    quiet = site.submit(QUIET, one_group(1, name="quiet"))

    def running() -> bool:
        return bool(site.rest.get(f"/api/workflow/{quiet}?skip_groups=true")["status"] == "RUNNING")

    site.wait(running, seconds=PATIENCE_SECONDS, awaited="the quiet pool's workflow to run")
    quiet_seconds = round(time.monotonic() - began, 1)
    _wait_for(site, "released_at IS NULL AND created_in_cluster_at IS NULL", 0, progress)
    seconds = time.monotonic() - began
    return {
        "groups_waiting": waiting,
        "quiet_pool_runs_after_seconds": quiet_seconds,
        "seconds": round(seconds, 1),
        "groups_per_second": round(waiting / seconds, 1),
    }


def _fill(site: Site, size: Size, progress: Progress) -> dict[str, Any]:
    began = time.monotonic()
    unreleased = _count(site, "released_at IS NULL")
    size_of_gang = (size.pods - unreleased) // size.gangs
    for number in range(size.gangs):
        site.submit((CROWDED, OTHER)[number % 2], one_group(size_of_gang, name=f"fill-{number}"))
    pods = unreleased + size_of_gang * size.gangs
    _wait_for(site, "phase = 'Running' AND NOT gone", pods, progress, table="workflows_observedpod")
    return {"pods": pods, "seconds_until_observed_running": round(time.monotonic() - began, 1)}


def _change(site: Site, progress: Progress) -> dict[str, Any]:
    began = time.monotonic()
    names = [pod["metadata"]["name"] for pod in site.pods(BACKEND)]
    path = f"/api/v1/namespaces/{namespace_of(BACKEND)}/pods"
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        list(pool.map(lambda name: site.api.patch(f"{path}/{name}", FINISH), names))
    seconds_until_told = time.monotonic() - began
    _wait_for(site, "released_at IS NULL", 0, progress)
    statuses = _rows(site, "SELECT status, count(*) FROM workflows_taskgroup GROUP BY status")
    return {
        "pods": len(names),
        "told_in_seconds": round(seconds_until_told, 1),
        "all_released_after_seconds": round(time.monotonic() - began, 1),
        "groups_by_status": dict(statuses),
        "pods_left": len(site.pods(BACKEND)),
    }


def _wait_for(
    site: Site, condition: str, want: int, progress: Progress, *, table: str = "workflows_taskgroup"
) -> None:
    reported_at = time.monotonic()

    def reached() -> bool:
        nonlocal reported_at
        count = _count(site, condition, table=table)
        if time.monotonic() - reported_at > 15:
            reported_at = time.monotonic()
            progress(f"load: {count} of {table} are {condition}; {want} are waited for")
        return count == want

    site.wait(reached, seconds=PATIENCE_SECONDS, awaited=f"{want} of {table} to be {condition}")


def _count(site: Site, condition: str, *, table: str = "workflows_taskgroup") -> int:
    return int(_rows(site, f"SELECT count(*) FROM {table} WHERE {condition}")[0][0])  # noqa: S608 -- written here


def _rows(site: Site, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(site.running.settings.database_url, autocommit=True) as connection:
        return connection.execute(query.encode()).fetchall()


@dataclass(slots=True)
class _Sampler:
    """Reads memory and metrics in a thread of its own, and keeps the most of each."""

    site: Site
    first: dict[str, int] = field(default_factory=dict)
    rss: Counter[str] = field(default_factory=Counter)
    most: dict[str, float] = field(default_factory=dict)
    ended: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.first = {name: use.rss for name, use in memory(self.site.supervisor).items()}
        self.thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.ended.set()
        if self.thread is not None:
            self.thread.join()

    def report(self) -> dict[str, Any]:
        service = {name: {"before": self.first[name], "most": self.rss[name]} for name in SERVICE}
        others = {name: most for name, most in self.rss.items() if name not in SERVICE}
        return {"rss_mib": service, "others_rss_mib": others, "most": self.most}

    def _run(self) -> None:
        pool = urllib3.PoolManager()
        settings = self.site.running.settings
        headers = {"Authorization": f"Bearer {settings.metrics_token}"}
        while not self.ended.wait(SAMPLE_SECONDS):
            for name, use in memory(self.site.supervisor).items():
                self.rss[name] = max(self.rss[name], use.rss)
            for process in ("beat", "observer"):
                try:
                    page = pool.request(
                        "GET", settings.metrics_urls()[process], headers=headers, timeout=10, retries=False
                    )
                except urllib3.exceptions.HTTPError:
                    continue  # a busy machine; the next sample comes soon
                self._keep(page.data.decode())

    def _keep(self, page: str) -> None:
        for line in page.splitlines():
            name, _, value = line.rpartition(" ")
            name = name.partition("{")[0]
            if name in WATCHED:
                self.most[name] = max(self.most.get(name, 0.0), round(float(value), 1))
