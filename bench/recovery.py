"""From the loss of a task to the next attempt of its gang: all pods of it have nodes.

Gangs of four run under KAI's stand-in; of each, one pod is deleted from outside, which counts as a preemption
that nothing explains. So the time holds the grace in which an explanation may still come, the end of all
pods of the attempt before, and the creation and placement of the next one. The bench follows pods with a
watch of its own.
"""

import threading
import time
from collections import defaultdict
from typing import Any

import urllib3

from bench.site import Progress, Site, namespace_of, started_site
from bench.submission import percentiles
from bench.usage import cpu_seconds, spent
from bench.workload import one_group
from localcluster.api import ApiError

GANGS = 100
SMALL_GANGS = 10
TASKS = 4
GPUS = 4
PATIENCE_SECONDS = 240.0
POOL = BACKEND = "recovery"
PATH = f"/api/v1/namespaces/{namespace_of(BACKEND)}/pods"
GROUP = "osmo.nvidia.com/task-group"
RETRY = "osmo.nvidia.com/retry"


def measure(*, small: bool, progress: Progress) -> dict[str, Any]:
    gangs = SMALL_GANGS if small else GANGS
    with started_site(progress=progress, standins=True) as site:
        site.add_nodes(POOL, count=gangs * TASKS // GPUS + 1, gpus=GPUS)
        site.add_backend(BACKEND, "kai")
        site.add_pool(POOL, backend=BACKEND, topology=False)
        recovery = "workflow:\n  recovery: {preempted: requeue}\n"
        text = one_group(TASKS, name="recovery", gpu=1).replace("workflow:\n", recovery, 1)
        workflows = [site.submit(POOL, text) for _ in range(gangs)]
        site.wait(
            lambda: _running(site) == gangs * TASKS,
            seconds=PATIENCE_SECONDS,
            awaited="all gangs to run",
        )
        progress(f"recovery: {gangs} gangs of {TASKS} run; each loses a pod now")
        return {"gangs": len(workflows), "tasks": TASKS, **_measure(site, gangs=gangs)}


def _running(site: Site) -> int:
    return sum(pod["status"].get("phase") == "Running" for pod in site.pods(BACKEND))


def _measure(site: Site, *, gangs: int) -> dict[str, Any]:
    pods, version = site.api.list(PATH)
    victims = {pod["metadata"]["labels"][GROUP]: pod["metadata"]["name"] for pod in pods}
    watch = _Watch(site, version, gangs=gangs)
    before = cpu_seconds(site.supervisor)
    lost_at = {}
    for gang, pod in victims.items():
        lost_at[gang] = time.monotonic()
        site.api.delete(f"{PATH}/{pod}")
    placed_at = watch.wait()
    seconds = [placed_at[gang] - lost_at[gang] for gang in lost_at]
    used = spent(before, cpu_seconds(site.supervisor))
    return {
        "servers": site.servers(),
        **percentiles(seconds),
        "most_ms": round(max(seconds) * 1000, 1),
        "cpu_seconds": used,
    }


class _Watch:
    """When this process heard that all pods of each gang's second attempt had nodes."""

    def __init__(self, site: Site, version: str, *, gangs: int) -> None:
        self._site, self._version, self._gangs = site, version, gangs
        self._placed: dict[str, set[str]] = defaultdict(set)
        self._at: dict[str, float] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for _, pod in self._site.api.watch(
                PATH, resource_version=self._version, seconds=int(PATIENCE_SECONDS)
            ):
                self._note(pod)
                if len(self._at) == self._gangs:
                    return
        except (ApiError, urllib3.exceptions.HTTPError):
            return  # ``wait`` says how many gangs were seen

    def _note(self, pod: dict[str, Any]) -> None:
        labels = pod.get("metadata", {}).get("labels", {})
        if labels.get(RETRY) != "1" or not pod["spec"].get("nodeName"):
            return
        placed = self._placed[labels[GROUP]]
        placed.add(pod["metadata"]["name"])
        if len(placed) == TASKS:
            self._at.setdefault(labels[GROUP], time.monotonic())

    def wait(self) -> dict[str, float]:
        self._thread.join(PATIENCE_SECONDS)
        if len(self._at) < self._gangs:
            raise TimeoutError(f"{len(self._at)} of {self._gangs} gangs were placed again")
        return self._at
