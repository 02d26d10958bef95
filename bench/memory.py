"""Memory of every process with 10,000 pods observed.

``rss`` is what the kernel counts as resident, added up over a server's processes; ``pss`` counts a page
that several processes share once, so it is what the machine has to have. "Observed" means that the
observer has written as many living pods as the cluster has, all of them Running. A bare client does the same
before, with the same pods in another namespace: it creates them and waits until a watch has told that each
is Running. The first reading is taken before any workflow, the second when everything has been still for a
moment. Then an hour follows in which small groups come and go beside them and pages are read, with a reading
of each server's largest process every five minutes.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import psycopg

from bench import bare_client
from bench.site import Progress, Site, started_site
from bench.usage import SERVICE, Memory, memory, most_memory
from bench.workload import one_group
from localcluster.controlplane import create_namespace

PODS = 10_000
SMALL_PODS = 1_000
GROUPS = 10
NODES = 110
PATIENCE_SECONDS = 900.0
SETTLE_SECONDS = 5.0
HELD_SECONDS, SMALL_HELD_SECONDS = 3600.0, 60.0
READINGS = 12
COMING_TASKS, COMING_EVERY_SECONDS = 10, 5.0
POOL = BACKEND = "memory"
ELSEWHERE = "bare"


def measure(*, small: bool, progress: Progress) -> dict[str, Any]:
    pods = SMALL_PODS if small else PODS
    with started_site(progress=progress, standins=False) as site:
        site.add_nodes(POOL, count=NODES, pods=110)
        site.add_backend(BACKEND, "default")
        site.add_pool(POOL, backend=BACKEND, topology=False)
        bare = _bare_seconds(site, pods, progress=progress)
        servers, before = site.servers(), memory(site.supervisor)
        began = time.monotonic()
        for number in range(GROUPS):
            site.submit(POOL, one_group(pods // GROUPS, name=f"memory-{number}"))
        seconds = _wait_until_observed(site, pods, began=began, progress=progress)
        time.sleep(SETTLE_SECONDS)
        after = memory(site.supervisor)
        seconds_held = SMALL_HELD_SECONDS if small else HELD_SECONDS
        readings, came = _over_time(site, seconds=seconds_held, progress=progress)
    return {
        "servers": servers,
        "pods": pods,
        "groups": GROUPS,
        "seconds_until_observed_running": seconds,
        "bare_watch_seconds": bare,
        "ratio": round(seconds / bare, 2),
        "service_mib": {name: _figures(after[name], before[name]) for name in SERVICE},
        "others_mib": {
            name: _figures(use, before[name]) for name, use in after.items() if name not in SERVICE
        },
        "held_seconds": seconds_held,
        "groups_that_came_and_went": came,
        "largest_process_rss_mib_over_time": readings,
    }


def _over_time(site: Site, *, seconds: float, progress: Progress) -> tuple[dict[str, list[int]], int]:
    """The memory of each server's largest process while groups come and go, and how many groups did."""
    readings: dict[str, list[int]] = {name: [] for name in SERVICE}
    began = time.monotonic()
    names: list[str] = []
    for number in count():
        if time.monotonic() - began >= seconds * len(readings["web"]) / READINGS:
            for name in SERVICE:
                readings[name].append(most_memory(site.supervisor, name).rss)
            progress(f"memory: after {time.monotonic() - began:.0f} s: {_last(readings)}")
        if time.monotonic() - began >= seconds:
            break
        names.append(site.submit(POOL, one_group(COMING_TASKS, name=f"coming-{number}")))
        site.rest.get("/api/workflow?all_users=true&limit=50")
        site.rest.get(f"/api/workflow/{names[0]}")
        if len(names) > 1:
            site.rest.call("POST", f"/api/workflow/{names.pop(0)}/cancel")
        time.sleep(COMING_EVERY_SECONDS)
    return readings, number


def _last(readings: dict[str, list[int]]) -> dict[str, int]:
    return {name: of_server[-1] for name, of_server in readings.items()}


def _figures(after: Memory, before: Memory) -> dict[str, int]:
    return {
        "processes": after.processes,
        "rss": after.rss,
        "pss": after.pss,
        "rss_before": before.rss,
        "pss_before": before.pss,
    }


def _bare_seconds(site: Site, pods: int, *, progress: Progress) -> float:
    """Create as many pods without the service, and watch until all of them are Running; seconds."""
    create_namespace(site.api, ELSEWHERE)
    assert site.running.plane is not None
    text = one_group(pods // GROUPS, name="bare")
    bodies = [body for body in site.dry_run(POOL, text) if body["kind"] == "Pod"]
    copies = [
        bare_client.renamed(body, name=f"bare-{number}-{at}", namespace=ELSEWHERE)
        for number in range(GROUPS)
        for at, body in enumerate(bodies)
    ]
    access, path = site.running.plane.access(), f"/api/v1/namespaces/{ELSEWHERE}/pods"
    began = time.monotonic()
    with ThreadPoolExecutor(1) as watching:
        all_run = watching.submit(_watch_until_running, site, path, pods)
        bare_client.send(access, bare_client.creations(path, copies))
        all_run.result()
    seconds = round(time.monotonic() - began, 1)
    progress(f"memory: a bare client saw {pods} pods run after {seconds} s")
    bare_client.send(access, bare_client.deletions(path, copies))
    site.wait(lambda: not site.api.list(path)[0], seconds=PATIENCE_SECONDS, awaited="no bare pod")
    return seconds


def _watch_until_running(site: Site, path: str, pods: int) -> None:
    """List, and watch from there; again where the server has ended a watch that fell behind."""
    ends_at = time.monotonic() + PATIENCE_SECONDS
    run: set[str] = set()
    while len(run) < pods and time.monotonic() < ends_at:
        listed, version = site.api.list(path)
        run = {pod["metadata"]["name"] for pod in listed if pod["status"].get("phase") == "Running"}
        for _, pod in site.api.watch(path, resource_version=version, seconds=60):
            if pod.get("status", {}).get("phase") == "Running":  # a bookmark has no status
                run.add(pod["metadata"]["name"])
            if len(run) == pods:
                return
    if len(run) < pods:
        raise TimeoutError(f"the watch has told of {len(run)} of {pods} pods")


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
