"""Memory of every process with 10,000 pods observed, and how long that took.

``rss`` is what the kernel counts as resident, added up over a server's processes; ``pss`` counts a page that
several processes share once. "Observed" means that the observer has written as many living pods as the
cluster has, all of them Running. A bare client does the same before, with the same pods in another namespace:
it creates them and waits until a watch has told that each is Running. An hour follows in which small groups
come and go beside them and pages are read, with a reading of each server's largest process now and then.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

from bench import bare_client
from bench.site import Progress, Site, started_site
from bench.usage import SERVICE, memory, most_memory
from bench.workload import one_group
from localcluster.controlplane import create_namespace

PODS, SMALL_PODS = 10_000, 1_000
GROUPS = 10
NODES = 110
PATIENCE_SECONDS = 900.0
SETTLE_SECONDS = 5.0
SECONDS, SMALL_SECONDS = 3600.0, 60.0
READINGS = 12
COMING_TASKS, COMING_EVERY_SECONDS = 10, 5.0
POOL = BACKEND = "memory"
ELSEWHERE = "bare"
OBSERVED = "SELECT count(*) FROM workflows_observedpod WHERE NOT absent AND phase = 'Running'"


def measure(*, small: bool, progress: Progress) -> dict[str, Any]:
    pods = SMALL_PODS if small else PODS
    with started_site(progress=progress, standins=False) as site:
        site.add_nodes(POOL, count=NODES, pods=110)
        site.add_backend(BACKEND, "default")
        site.add_pool(POOL, backend=BACKEND, topology=False)
        bare = _bare_seconds(site, pods)
        progress(f"memory: a bare client saw {pods} pods run after {bare:.1f} s")
        before, began = memory(site.supervisor), time.monotonic()
        for number in range(GROUPS):
            site.submit(POOL, one_group(pods // GROUPS, name=f"memory-{number}"))
        awaited = f"{pods} pods to be observed"
        site.wait(lambda: site.count(OBSERVED) == pods, seconds=PATIENCE_SECONDS, awaited=awaited)
        seconds = time.monotonic() - began
        progress(f"memory: {pods} pods are observed after {seconds:.1f} s")
        time.sleep(SETTLE_SECONDS)
        after = memory(site.supervisor)
        readings = _over_time(site, seconds=SMALL_SECONDS if small else SECONDS, progress=progress)
    return {
        "pods": pods,
        "seconds_until_observed_running": round(seconds, 1),
        "bare_watch_seconds": round(bare, 1),
        "ratio": round(seconds / bare, 2),
        "mib": {
            name: {"rss": use.rss, "pss": use.pss, "rss_before": before[name].rss}
            for name, use in after.items()
        },
        "largest_process_rss_mib_over_time": readings,
    }


def _over_time(site: Site, *, seconds: float, progress: Progress) -> dict[str, list[int]]:
    """The memory of each server's largest process while groups come and go."""
    readings: dict[str, list[int]] = {name: [] for name in SERVICE}
    began = time.monotonic()
    names: list[str] = []
    for number in count():
        if time.monotonic() - began >= seconds * len(readings["web"]) / READINGS:
            for name in SERVICE:
                readings[name].append(most_memory(site.supervisor, name).rss)
            progress(f"memory: after {time.monotonic() - began:.0f} s: {readings}")
        if time.monotonic() - began >= seconds:
            return readings
        names.append(site.submit(POOL, one_group(COMING_TASKS, name=f"coming-{number}")))
        site.rest.get("/api/workflow?all_users=true&limit=50")
        site.rest.get(f"/api/workflow/{names[0]}")
        if len(names) > 1:
            site.rest.call("POST", f"/api/workflow/{names.pop(0)}/cancel")
        time.sleep(COMING_EVERY_SECONDS)
    raise AssertionError


def _bare_seconds(site: Site, pods: int) -> float:
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
    seconds = time.monotonic() - began
    bare_client.send(access, bare_client.deletions(path, copies))
    site.wait(lambda: not site.api.list(path)[0], seconds=PATIENCE_SECONDS, awaited="no bare pod")
    return seconds


def _watch_until_running(site: Site, path: str, pods: int) -> None:
    """List, and watch from there; again where the server has ended a watch that fell behind."""
    ends_at, run = time.monotonic() + PATIENCE_SECONDS, set[str]()
    while len(run) < pods:
        if time.monotonic() > ends_at:
            raise TimeoutError(f"the watch has told of {len(run)} of {pods} pods")
        listed, version = site.api.list(path)
        run = {pod["metadata"]["name"] for pod in listed if pod["status"].get("phase") == "Running"}
        for _, pod in site.api.watch(path, resource_version=version, seconds=60):
            if pod.get("status", {}).get("phase") == "Running":  # a bookmark has no status
                run.add(pod["metadata"]["name"])
            if len(run) == pods:
                return
