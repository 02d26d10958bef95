"""From a pod's change of status in the cluster to the service's answer that shows it.

A thousand running pods end at about the same time. This process follows them with a watch of its own
on the API server and notes when it was told of each, and asks the service for the workflows in turn
without a pause, noting which answer first shows each task as ended. The delay is the difference, so it
holds the observer's watch and batch, the write, the message, a worker's reconcile of the group, and up to one
round of the polling, whose length is reported beside it.

The tasks that end are not leads, so their groups go on running and nothing is torn down meanwhile.
"""

import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import urllib3

from bench.site import Progress, Site, namespace_of, started_site
from bench.submission import percentiles
from bench.usage import cpu_seconds, spent
from bench.workload import one_group
from localcluster.api import ApiError

PODS = 1000
SMALL_PODS = 100
GROUPS = 10
NODES = 20
PATIENCE_SECONDS = 240.0
PATCHES_AT_ONCE = 8
POOL = BACKEND = "delay"
PATH = f"/api/v1/namespaces/{namespace_of(BACKEND)}/pods"
FINISH = {"metadata": {"annotations": {"sim.osmo.local/run-for": "0s"}}}


def measure(*, small: bool, progress: Progress) -> dict[str, Any]:
    pods = SMALL_PODS if small else PODS
    with started_site(progress=progress, standins=False) as site:
        site.add_nodes(POOL, count=NODES)
        site.add_backend(BACKEND, "default")
        site.add_pool(POOL, backend=BACKEND, topology=False)
        gangs = _of_gangs(site, GROUPS, pods=pods, progress=progress)
        return {**gangs, "in_one_gang": _of_gangs(site, 1, pods=pods, progress=progress)}


def _of_gangs(site: Site, groups: int, *, pods: int, progress: Progress) -> dict[str, Any]:
    """Let so many pods of so many gangs end; their leads run on, so that nothing is torn down meanwhile."""
    text = one_group(pods // groups + 1, name=f"delay-{groups}")
    workflows = [site.submit(POOL, text) for _ in range(groups)]
    site.wait(
        lambda: sum(len(_tasks(site, workflow, "RUNNING")) for workflow in workflows) == pods + groups,
        seconds=PATIENCE_SECONDS,
        awaited="all tasks to run",
    )
    progress(f"status_delay: {pods + groups} pods run in {groups} groups; {pods} of them end now")
    return _measure(site, workflows, pods=pods)


def _tasks(site: Site, workflow: str, status: str) -> list[str]:
    groups = site.rest.get(f"/api/workflow/{workflow}")["groups"]
    return [task["pod_name"] for group in groups for task in group["tasks"] if task["status"] == status]


def _measure(site: Site, workflows: list[str], *, pods: int) -> dict[str, Any]:
    ending = [
        task["pod_name"]
        for workflow in workflows
        for group in site.rest.get(f"/api/workflow/{workflow}")["groups"]
        for task in group["tasks"]
        if not task["lead"]
    ]
    _, version = site.api.list(PATH)
    if len(ending) != pods:
        raise RuntimeError(f"{len(ending)} pods are there to end instead of {pods}")
    watch = _Watch(site, version, count=pods)
    began, before = time.monotonic(), cpu_seconds(site.supervisor)
    with ThreadPoolExecutor(max_workers=PATCHES_AT_ONCE) as pool:
        patched = pool.map(lambda name: site.api.patch(f"{PATH}/{name}", FINISH), ending)
        answered_at, rounds = _first_shown(site, workflows, pods=pods)
        list(patched)
    changed = watch.wait()
    used = spent(before, cpu_seconds(site.supervisor))
    delays = [answered_at[name] - changed[name] for name in ending]
    return {
        "pods": pods,
        "groups": len(workflows),
        **percentiles(delays),
        "most_ms": round(max(delays) * 1000, 1),
        "changes_took_seconds": round(max(changed.values()) - began, 2),
        "polling_interval_ms": round(statistics.median(rounds) * 1000, 1),
        "cpu_seconds": used,
        "cpu_ms_per_pod": {
            name: round(1000 * used.get(name, 0.0) / pods, 2) for name in ("observer", "worker")
        },
    }


class _Watch:
    """When the API server told this process that each pod had ended."""

    def __init__(self, site: Site, version: str, *, count: int) -> None:
        self._site, self._version, self._count = site, version, count
        self._at: dict[str, float] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        seconds = int(PATIENCE_SECONDS)
        with suppress(ApiError, urllib3.exceptions.HTTPError):  # ``wait`` says how many were seen
            for _, pod in self._site.api.watch(PATH, resource_version=self._version, seconds=seconds):
                if pod.get("status", {}).get("phase") == "Succeeded":
                    self._at.setdefault(pod["metadata"]["name"], time.monotonic())
                if len(self._at) == self._count:
                    return

    def wait(self) -> dict[str, float]:
        self._thread.join(PATIENCE_SECONDS)
        if len(self._at) < self._count:
            raise TimeoutError(f"the API server's watch told of {len(self._at)} of {self._count} pods")
        return self._at


def _first_shown(site: Site, workflows: list[str], *, pods: int) -> tuple[dict[str, float], list[float]]:
    """When an answer of the service first showed each task as ended, and the seconds of each round."""
    answered_at: dict[str, float] = {}
    rounds, left, until = [], list(workflows), time.monotonic() + PATIENCE_SECONDS
    while left:
        began = time.monotonic()
        for workflow in list(left):
            ended = _tasks(site, workflow, "COMPLETED")
            for name in ended:
                answered_at.setdefault(name, time.monotonic())
            if len(ended) >= pods // len(workflows):
                left.remove(workflow)
        rounds.append(time.monotonic() - began)
        site.supervisor.check()
        if time.monotonic() > until:
            raise TimeoutError(f"the service showed {len(answered_at)} of {pods} tasks as ended")
    return answered_at, rounds
