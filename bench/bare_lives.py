"""Whole lives of task groups without the service: a client that only waits for what the cluster does.

All groups at once, kind by kind, and each wait is one list a second: nothing that follows groups one by one
can be faster on the same cluster.
"""

import json
import time
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

from bench import bare_client
from bench.site import Site
from localcluster import kueue_queues
from localcluster.controlplane import create_namespace

NAMESPACE = "bare-lives"
PATIENCE_SECONDS = 1800.0
LOOK_SECONDS = 1.0
LABEL = "osmo.nvidia.com/task-group"

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


def seconds(site: Site, bodies: Sequence[dict[str, Any]], *, groups: int) -> float:
    """From the first creation of so many copies of a group until nothing of them is left.

    ``bodies`` are the objects of one group in the order of their creation. Its pods must end by themselves.
    """
    assert site.running.plane is not None
    access = site.running.plane.access()
    create_namespace(site.api, NAMESPACE)
    copies = [_copied(bodies) for _ in range(groups)]
    before_pods = [body["kind"] for body in bodies if body["kind"] != "Pod"]
    domains = [copy for objs in copies for copy in objs if copy["kind"] == "ComputeDomain"]
    pods = sum(copy["kind"] == "Pod" for objs in copies for copy in objs)

    def calls(make: Callable[..., list[bare_client.Call]], kind: str) -> list[bare_client.Call]:
        return make(
            path_of({"kind": kind}, NAMESPACE), [o for objs in copies for o in objs if o["kind"] == kind]
        )

    began = time.monotonic()
    if domains:
        bare_client.send(access, calls(bare_client.creations, "ComputeDomain"))
        _wait(site, lambda: _count(site, _TEMPLATES) == len(domains), "all claim templates")
    rest = [kind for kind in dict.fromkeys(before_pods) if kind != "ComputeDomain"]
    bare_client.send(access, *(calls(bare_client.creations, kind) for kind in (*rest, "Pod")))
    _wait(site, lambda: _count(site, _PATHS["Pod"], phase="Succeeded") == pods, "all pods to end")
    kinds = ["Pod", *reversed(rest), *(["ComputeDomain"] if domains else [])]
    bare_client.send(access, *(calls(bare_client.deletions, kind) for kind in kinds))
    left = (_PATHS["Pod"], *((_PATHS["ComputeDomain"], _TEMPLATES, _CLAIMS) if domains else ()))
    _wait(site, lambda: not any(_count(site, path) for path in left), "all objects to be gone")
    return time.monotonic() - began


def _copied(bodies: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The objects of another group like this one: other names everywhere, in another namespace."""
    text = json.dumps([body | {"metadata": body["metadata"] | {"namespace": NAMESPACE}} for body in bodies])
    group = next(body["metadata"]["labels"][LABEL] for body in bodies if body["kind"] == "Pod")
    tasks = [body["metadata"]["name"].rsplit("-", 1)[0] for body in bodies if body["kind"] == "Pod"]
    for identity in (group, *tasks):
        text = text.replace(identity, uuid4().hex)
    return list(json.loads(text))


def _count(site: Site, path: str, *, phase: str = "") -> int:
    query = {"fieldSelector": f"status.phase={phase}"} if phase else None
    return len(site.api.list(path.format(NAMESPACE), query=query)[0])


def _wait(site: Site, condition: Callable[[], bool], awaited: str) -> None:
    def after_a_while() -> bool:
        time.sleep(LOOK_SECONDS)
        return condition()

    site.wait(after_a_while, seconds=PATIENCE_SECONDS, awaited=awaited)
