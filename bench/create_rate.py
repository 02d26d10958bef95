"""Rate of pod creation of a submitted task group, beside a bare asyncio client.

Ours: a workflow of one task group is submitted to the running service; the worker logs how many
pods it created in how many seconds, from the first request sent to the last reply. The bare client is the
measure because it does nothing else. It creates the same bodies, taken from the dry run of the same
workflow, under other names in another namespace of the same API server.

Both are timed in the client, in rounds that take turns, so a machine that slows down slows both. Pods of
a round are gone before the next begins. Only the ratio of the medians means anything on another
machine. Beside it stands the time from submission to the last pod, as the API server's clock tells it
(``creationTimestamp`` has seconds only, so it is the moment this client saw the last one in a watch).
"""

import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import urllib3

from bench import bare_client
from bench.site import Progress, Site, namespace_of, started_site
from bench.workload import SET, one_group
from localcluster.api import ApiError
from localcluster.controlplane import create_namespace

ROUNDS = 5
PODS = 500
SMALL_PODS = 100
PATIENCE_SECONDS = 120.0
POOL = BACKEND = "rate"
ELSEWHERE = "bare"
PODS_PATH = f"/api/v1/namespaces/{ELSEWHERE}/pods"
WANTED_SHARE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Seconds of one turn: creation by us and by the bare client, and submission to the last pod."""

    service: float
    bare: float
    submission_to_last_pod: float


def measure(*, small: bool, progress: Progress) -> dict[str, Any]:
    pods = SMALL_PODS if small else PODS
    with started_site(progress=progress, standins=True) as site:
        site.add_nodes(POOL, count=-(-pods // 4), gpus=4)
        site.add_backend(BACKEND, "kai")
        site.add_pool(POOL, backend=BACKEND, topology=True)
        create_namespace(site.api, ELSEWHERE)
        text = one_group(pods, name="rate", gpu=1, sets_of=SET)
        bodies = [body for body in site.dry_run(POOL, text) if body["kind"] == "Pod"]
        if len(bodies) != pods:
            raise RuntimeError(f"the dry run shows {len(bodies)} pods instead of {pods}")
        servers = site.servers()
        rounds = []
        for number in range(ROUNDS):
            rounds.append(_round(site, text, bodies, number=number))
            progress(f"create_rate: round {number + 1} of {ROUNDS}: {rounds[-1]}")
    service = pods / statistics.median(turn.service for turn in rounds)
    bare = pods / statistics.median(turn.bare for turn in rounds)
    return {
        "servers": servers,
        "pods": pods,
        "rounds": ROUNDS,
        "ours_per_second": round(service, 1),
        "bare_per_second": round(bare, 1),
        "ratio": round(service / bare, 3),
        "ratio_wanted": WANTED_SHARE,
        "ratio_by_round": [round(turn.bare / turn.service, 3) for turn in rounds],
        "submission_to_last_pod_seconds": round(
            statistics.median(turn.submission_to_last_pod for turn in rounds), 2
        ),
    }


def _round(site: Site, text: str, bodies: Sequence[dict[str, Any]], *, number: int) -> Round:
    last_pod = _LastPod(site, count=len(bodies))
    began = time.monotonic()
    workflow = site.submit(POOL, text)
    last = last_pod.wait()
    service = _logged_seconds(site, workflow, count=len(bodies))
    site.wait(lambda: _settled(site), seconds=PATIENCE_SECONDS, awaited="all pods to run")
    site.cancel([workflow], seconds=PATIENCE_SECONDS)
    assert site.running.plane is not None
    pods = [
        bare_client.renamed(body, name=f"bare-{number}-{at}", namespace=ELSEWHERE)
        for at, body in enumerate(bodies)
    ]
    access = site.running.plane.access()
    bare = bare_client.send(access, bare_client.creations(PODS_PATH, pods))
    bare_client.send(access, bare_client.deletions(PODS_PATH, pods))
    site.wait(
        lambda: not site.api.list(PODS_PATH)[0], seconds=PATIENCE_SECONDS, awaited="the bare pods to be gone"
    )
    return Round(service=service, bare=bare, submission_to_last_pod=last - began)


class _LastPod:
    """A watch from now on that tells when so many pods have appeared in the backend's namespace."""

    def __init__(self, site: Site, *, count: int) -> None:
        self._site, self._count = site, count
        self._path = f"/api/v1/namespaces/{namespace_of(BACKEND)}/pods"
        self._version = site.api.list(self._path)[1]
        self._at = 0.0
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        added = 0
        events = self._site.api.watch(
            self._path, resource_version=self._version, seconds=int(PATIENCE_SECONDS)
        )
        try:
            for kind, _ in events:
                added += kind == "ADDED"
                if added == self._count:
                    self._at = time.monotonic()
                    return
        except (ApiError, urllib3.exceptions.HTTPError):
            return  # ``wait`` says that nothing was last_pod

    def wait(self) -> float:
        self._thread.join(PATIENCE_SECONDS + 1)
        if not self._at:
            raise TimeoutError(f"{self._count} pods did not appear in {PATIENCE_SECONDS:g} s")
        return self._at


def _logged_seconds(site: Site, workflow: str, *, count: int) -> float:
    """What the worker says that creating this workflow's pods took."""

    def lines() -> list[dict[str, Any]]:
        logged = site.logged("worker", "objects_created")
        return [line for line in logged if line.get("workflow") == workflow and line["kind"] == "Pod"]

    site.wait(
        lambda: sum(line["count"] for line in lines()) >= count, seconds=30, awaited="the worker's log line"
    )
    return sum(float(line["seconds"]) for line in lines())


def _settled(site: Site) -> bool:
    return all(pod["status"].get("phase") == "Running" for pod in site.pods(BACKEND))
