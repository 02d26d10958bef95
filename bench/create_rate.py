"""Rate of pod creation of a submitted task group, beside a bare asyncio client.

Ours: a workflow of one task group is submitted to the running service; the worker logs how many
pods it created in how many seconds, from the first request sent to the last reply. The bare client is the
measure because it does nothing else. It creates the same bodies, taken from the dry run of the same
workflow, under other names in another namespace of the same API server.

Both are timed in the client, in rounds that take turns, so a machine that slows down slows both. Pods of
a round are gone before the next begins. A round takes seconds: within one second, as 500 pods take, ratios of
equal code lay between 0.55 and 1.26. Only the ratio means anything on another machine: the median of the
rounds that lie near the median of all.
"""

import statistics
from collections.abc import Sequence
from typing import Any

from bench import bare_client
from bench.site import Progress, Site, started_site
from bench.workload import SET, one_group
from localcluster.controlplane import create_namespace

ROUNDS = 7
PODS = 2_000
SMALL_PODS = 100
PATIENCE_SECONDS = 120.0
POOL = BACKEND = "rate"
ELSEWHERE = "bare"
PODS_PATH = f"/api/v1/namespaces/{ELSEWHERE}/pods"
NEAR_SHARE = 0.15
"""How far the ratio of a round may lie from the median of all to count."""


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
        rounds = []
        for number in range(ROUNDS):
            rounds.append(_round(site, text, bodies, number=number))
            progress(f"create_rate: round {number + 1} of {ROUNDS}: {rounds[-1]}")
    service, bare = (statistics.median(seconds) for seconds in zip(*rounds, strict=True))
    ratios = [of_bare / of_service for of_service, of_bare in rounds]
    middle = statistics.median(ratios)
    near = [ratio for ratio in ratios if abs(ratio / middle - 1) <= NEAR_SHARE]
    return {
        "pods": pods,
        "rounds": ROUNDS,
        "ours_per_second": round(pods / service, 1),
        "bare_per_second": round(pods / bare, 1),
        "ratio": round(statistics.median(near), 3),
        "ratio_by_round": [round(ratio, 3) for ratio in ratios],
    }


def _round(site: Site, text: str, bodies: Sequence[dict[str, Any]], *, number: int) -> tuple[float, float]:
    """Seconds of creation by us and by the bare client."""
    workflow = site.submit(POOL, text)
    service = _logged_creation(site, workflow, count=len(bodies))
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
    return service, bare


def _logged_creation(site: Site, workflow: str, *, count: int) -> float:
    """The seconds that the creation of this workflow's pods took, as the worker reports."""

    def lines() -> list[dict[str, Any]]:
        logged = site.logged("worker", "objects_created")
        return [line for line in logged if line.get("workflow") == workflow and line["kind"] == "Pod"]

    site.wait(
        lambda: sum(line["count"] for line in lines()) >= count,
        seconds=PATIENCE_SECONDS,
        awaited="the worker's log line",
    )
    return sum(float(line["seconds"]) for line in lines())


def _settled(site: Site) -> bool:
    return all(pod["status"].get("phase") == "Running" for pod in site.pods(BACKEND))
