"""Rate of pod creation of a submitted task group, beside a bare asyncio client.

Ours: a workflow of one task group is submitted to the running service; the worker logs how many
pods it created in how many seconds, from the first request sent to the last reply. The bare client is the
measure because it does nothing else: 8 connections, bodies encoded beforehand, the reply read and thrown
away. It creates the same bodies, taken from the dry run of the same workflow, under other names in another
namespace of the same API server.

Both are timed in the client, in rounds that take turns, so a machine that slows down slows both. Pods of
a round are gone before the next begins. Only the ratio of the medians means anything on another
machine. Beside it stands the time from submission to the last pod, as the API server's clock tells it
(``creationTimestamp`` has seconds only, so it is the moment this client saw the last one in a watch).
"""

import asyncio
import json
import ssl
import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import urllib3

from bench.site import Say, Site, namespace_of, site
from bench.workload import SET, one_group
from localcluster.api import Access, ApiError
from localcluster.controlplane import create_namespace

CONNECTIONS = 8
ROUNDS = 5
PODS = 500
SMALL_PODS = 100
PATIENCE_SECONDS = 120.0
POOL = BACKEND = "rate"
ELSEWHERE = "bare"
WANTED_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Seconds of one turn: creation by us and by the bare client, and submission to the last pod."""

    ours: float
    bare: float
    submission_to_last_pod: float


def measure(*, small: bool, say: Say) -> dict[str, Any]:
    pods = SMALL_PODS if small else PODS
    with site(say=say, standins=True) as here:
        here.add_nodes(POOL, count=-(-pods // 4), gpus=4)
        here.add_backend(BACKEND, "kai")
        here.add_pool(POOL, backend=BACKEND, topology=True)
        create_namespace(here.api, ELSEWHERE)
        text = one_group(pods, name="rate", gpu=1, sets_of=SET)
        bodies = _bodies(here, text, pods)
        servers = here.servers()
        rounds = []
        for number in range(ROUNDS):
            rounds.append(_round(here, text, bodies, number=number))
            say(f"create_rate: round {number + 1} of {ROUNDS}: {rounds[-1]}")
    ours = pods / statistics.median(one.ours for one in rounds)
    bare = pods / statistics.median(one.bare for one in rounds)
    return {
        "servers": servers,
        "pods": pods,
        "rounds": ROUNDS,
        "ours_per_second": round(ours, 1),
        "bare_per_second": round(bare, 1),
        "ratio": round(ours / bare, 3),
        "ratio_wanted": WANTED_SHARE,
        "ratio_by_round": [round(one.bare / one.ours, 3) for one in rounds],
        "submission_to_last_pod_seconds": round(
            statistics.median(one.submission_to_last_pod for one in rounds), 2
        ),
    }


def _bodies(here: Site, text: str, pods: int) -> list[dict[str, Any]]:
    """The pods of the workflow, as a dry run shows them."""
    reply = here.rest.post(f"/api/pool/{POOL}/workflow?dry_run=true", {"file": text})
    found = [one for one in reply["objects"] if one["kind"] == "Pod"]
    if len(found) != pods:
        raise RuntimeError(f"the dry run shows {len(found)} pods instead of {pods}")
    return found


def _round(here: Site, text: str, bodies: Sequence[dict[str, Any]], *, number: int) -> Round:
    seen = _LastPod(here, count=len(bodies))
    began = time.monotonic()
    workflow = here.submit(POOL, text)
    last = seen.wait()
    ours = _logged_seconds(here, workflow, count=len(bodies))
    here.wait(lambda: _settled(here), seconds=PATIENCE_SECONDS, what="all pods to run")
    here.cancel([workflow], seconds=PATIENCE_SECONDS)
    assert here.running.plane is not None
    pods = _renamed(bodies, stem=f"bare-{number}")
    bare = create(here.running.plane.access(), pods, namespace=ELSEWHERE)
    _clear(here, pods)
    return Round(ours=ours, bare=bare, submission_to_last_pod=last - began)


class _LastPod:
    """A watch from now on that tells when so many pods have appeared in the backend's namespace."""

    def __init__(self, here: Site, *, count: int) -> None:
        self._here, self._count = here, count
        self._path = f"/api/v1/namespaces/{namespace_of(BACKEND)}/pods"
        self._version = here.api.list(self._path)[1]
        self._at = 0.0
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        added = 0
        events = self._here.api.watch(
            self._path, resource_version=self._version, seconds=int(PATIENCE_SECONDS)
        )
        try:
            for kind, _ in events:
                added += kind == "ADDED"
                if added == self._count:
                    self._at = time.monotonic()
                    return
        except (ApiError, urllib3.exceptions.HTTPError):
            return  # ``wait`` says that nothing was seen

    def wait(self) -> float:
        self._thread.join(PATIENCE_SECONDS + 1)
        if not self._at:
            raise TimeoutError(f"{self._count} pods did not appear in {PATIENCE_SECONDS:g} s")
        return self._at


def _logged_seconds(here: Site, workflow: str, *, count: int) -> float:
    """What the worker says that creating this workflow's pods took."""

    def lines() -> list[dict[str, Any]]:
        logged = here.logged("worker", "objects_created")
        return [one for one in logged if one.get("workflow") == workflow and one["kind"] == "Pod"]

    here.wait(lambda: sum(one["count"] for one in lines()) >= count, seconds=30, what="the worker's log line")
    return sum(float(one["seconds"]) for one in lines())


def _settled(here: Site) -> bool:
    return all(pod["status"].get("phase") == "Running" for pod in here.pods(BACKEND))


def _renamed(bodies: Sequence[dict[str, Any]], *, stem: str) -> list[dict[str, Any]]:
    return [
        body | {"metadata": body["metadata"] | {"name": f"{stem}-{number}", "namespace": ELSEWHERE}}
        for number, body in enumerate(bodies)
    ]


def create(access: Access, pods: Sequence[dict[str, Any]], *, namespace: str) -> float:
    """Create pods with a bare asyncio client; seconds from the first request sent to the last reply."""
    url = f"{access.server}/api/v1/namespaces/{namespace}/pods"
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {access.token}"}
    encoded = [json.dumps(pod).encode() for pod in pods]

    async def send_all() -> float:
        tls = ssl.create_default_context(cafile=access.ca_file)
        connector = aiohttp.TCPConnector(limit=CONNECTIONS, ssl=tls)
        async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
            bodies = iter(encoded)

            async def worker() -> None:
                for body in bodies:
                    async with session.post(url, data=body) as reply:
                        answer = await reply.read()
                        if reply.status != 201:
                            raise RuntimeError(f"a create was answered with {reply.status}: {answer[:300]!r}")

            began = time.perf_counter()
            await asyncio.gather(*(worker() for _ in range(CONNECTIONS)))
            return time.perf_counter() - began

    return asyncio.run(asyncio.wait_for(send_all(), PATIENCE_SECONDS))


def _clear(here: Site, pods: Sequence[dict[str, Any]]) -> None:
    path = f"/api/v1/namespaces/{ELSEWHERE}/pods"
    for pod in pods:
        here.api.delete(f"{path}/{pod['metadata']['name']}", body={"gracePeriodSeconds": 0})
    here.wait(lambda: not here.api.list(path)[0], seconds=PATIENCE_SECONDS, what="the bare pods to be gone")
