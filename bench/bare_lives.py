"""Whole lives of task groups without the service: a client that only waits for what the cluster does.

All groups at once and kind by kind, so there is one wait for all claim templates, one for the ends of all
pods and one until all is gone; a wait asks the API server for a count some times a second, and for no object.
A client that let groups overtake each other would be faster where schedulers and controllers take turns.
"""

import json
import time
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

from bench import bare_client
from bench.site import Site
from localcluster import kueue_queues
from scheduling import names

PATIENCE_SECONDS = 1800.0

_PATHS = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "Service": "/api/v1/namespaces/{}/services",
    "Secret": "/api/v1/namespaces/{}/secrets",
    "PodGroup": "/apis/scheduling.run.ai/v2alpha2/namespaces/{}/podgroups",
    "Workload": kueue_queues.KUEUE + "/namespaces/{}/workloads",
    "ComputeDomain": "/apis/resource.nvidia.com/v1beta1/namespaces/{}/computedomains",
}
_TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaimtemplates"
_CLAIMS = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims"


def path_of(body: dict[str, Any], namespace: str) -> str:
    """Where objects of this kind are in a namespace."""
    return _PATHS[body["kind"]].format(namespace)


def seconds(site: Site, bodies: Sequence[dict[str, Any]], *, groups: int, namespace: str) -> float:
    """From the first creation of so many copies of a group until nothing of them is left.

    ``bodies`` are the objects of one group in the order of their creation. Its pods must end by themselves,
    and nothing else may be in the namespace.
    """
    assert site.running.plane is not None
    access = site.running.plane.access()
    wait_until_empty(site, bodies, namespace=namespace)
    copies = [_copied(bodies, namespace) for _ in range(groups)]
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for obj in (obj for objs in copies for obj in objs):
        by_kind.setdefault(obj["kind"], []).append(obj)
    domains, pods = by_kind.get("ComputeDomain", []), by_kind["Pod"]
    others = [objs for kind, objs in by_kind.items() if kind not in ("ComputeDomain", "Pod")]

    def send(make: Callable[..., list[bare_client.Call]], *kinds: list[dict[str, Any]]) -> None:
        bare_client.send(access, *(make(path_of(objs[0], namespace), objs) for objs in kinds if objs))

    began = time.monotonic()
    send(bare_client.creations, domains)
    _wait(site, lambda: _count(site, _TEMPLATES, namespace) == len(domains), "all claim templates")
    send(bare_client.creations, *others)
    if workloads := by_kind.get("Workload"):
        _wait(site, lambda: _admitted(site, namespace) == len(workloads), "all admissions")
    send(bare_client.creations, pods)
    not_ended = "status.phase!=Succeeded"
    _wait(site, lambda: not _count(site, _PATHS["Pod"], namespace, where=not_ended), "all pods to end")
    send(bare_client.deletions, pods, *others, domains)
    wait_until_empty(site, bodies, namespace=namespace)
    return time.monotonic() - began


def wait_until_empty(site: Site, bodies: Sequence[dict[str, Any]], *, namespace: str) -> None:
    """Wait until nothing of these kinds, nor what controllers make of them, is in the namespace."""
    paths = [_PATHS[kind] for kind in dict.fromkeys(body["kind"] for body in bodies)]
    if _PATHS["ComputeDomain"] in paths:
        paths += [_TEMPLATES, _CLAIMS]
    _wait(site, lambda: not any(_count(site, path, namespace) for path in paths), "all objects to be gone")


def _copied(bodies: Sequence[dict[str, Any]], namespace: str) -> list[dict[str, Any]]:
    """The objects of another group like this one: other names everywhere, in another namespace."""
    text = json.dumps([body | {"metadata": body["metadata"] | {"namespace": namespace}} for body in bodies])
    pods = [body["metadata"] for body in bodies if body["kind"] == "Pod"]
    tasks = [pod["name"].rsplit("-", 1)[0] for pod in pods]
    for identity in (pods[0]["labels"][names.GROUP_LABEL], *tasks):
        text = text.replace(identity, uuid4().hex)
    return list(json.loads(text))


def _count(site: Site, path: str, namespace: str, *, where: str = "") -> int:
    """How many objects there are; with ``where``, which selects by fields, at most one is counted."""
    query = {"limit": 1} | ({"fieldSelector": where} if where else {})
    answer = site.api.call("GET", path.format(namespace), query=query)
    return len(answer.get("items") or ()) + int(answer["metadata"].get("remainingItemCount") or 0)


def _admitted(site: Site, namespace: str) -> int:
    workloads = site.api.list(_PATHS["Workload"].format(namespace))[0]
    return sum("admission" in (workload.get("status") or {}) for workload in workloads)


def _wait(site: Site, condition: Callable[[], bool], awaited: str) -> None:
    site.wait(condition, seconds=PATIENCE_SECONDS, awaited=awaited)
