"""The cluster as the checks see it: read from the API server, with a diary of what came and went."""

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from urllib3.exceptions import HTTPError

from localcluster import nodes, scenario
from localcluster.api import Api, ApiError
from localcluster.kueue_queues import KUEUE

GROUP = "osmo.nvidia.com/task-group"
RUN_FOR = "sim.osmo.local/run-for"
BLOCKERS = "default"

CORE = "/api/v1"
KAI = "/apis/scheduling.run.ai/v2alpha2"
NATIVE = "/apis/scheduling.k8s.io/v1beta1"
COMPOSITES = "/apis/scheduling.k8s.io/v1alpha3"
NVIDIA = "/apis/resource.nvidia.com/v1beta1"
DRA = "/apis/resource.k8s.io/v1"

KINDS = {
    "Pod": (CORE, "pods"),
    "Service": (CORE, "services"),
    "Secret": (CORE, "secrets"),
    "PodGroup": (KAI, "podgroups"),
    "PodGroup (Kubernetes)": (NATIVE, "podgroups"),
    "CompositePodGroup": (COMPOSITES, "compositepodgroups"),
    "Workload (Kubernetes)": (NATIVE, "workloads"),
    "Workload": (KUEUE, "workloads"),
    "ComputeDomain": (NVIDIA, "computedomains"),
    "ResourceClaimTemplate": (DRA, "resourceclaimtemplates"),
    "ResourceClaim": (DRA, "resourceclaims"),
}
POD_GROUPS = ("PodGroup", "PodGroup (Kubernetes)", "Workload")
DIARY = ("Pod", *POD_GROUPS, "ComputeDomain")


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing seen: when, what kind of change, of which object.

    ``at`` is when this process heard of it, each kind by a watch of its own; the order of events follows from
    ``version``, which counts the writes of the whole server.
    """

    at: datetime
    version: int
    change: str
    kind: str
    name: str
    group: str
    state: str


@dataclass(slots=True)
class Diary:
    """Watches of the demo's namespaces; entries in the order in which they were seen.

    The server ends a stream after ``stream_seconds``; the next one goes on where it ended, so nothing is
    missed unless the server forgets that version.
    """

    api: Api
    stream_seconds: int = 30
    entries: list[Entry] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self, namespaces: Iterable[str]) -> None:
        for namespace in namespaces:
            for kind in DIARY:
                thread = threading.Thread(target=self._follow, args=(namespace, kind), daemon=True)
                thread.start()
                self._threads.append(thread)

    def stop(self) -> None:
        self._stop.set()

    def of_group(self, group: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.group == group]

    def _follow(self, namespace: str, kind: str) -> None:
        root, plural = KINDS[kind]
        path = f"{root}/namespaces/{namespace}/{plural}"
        lines: dict[str, str] = {}
        version = ""
        while not self._stop.is_set():
            try:
                version = version or self.api.list(path)[1]
                for change, obj in self.api.watch(
                    path, resource_version=version, seconds=self.stream_seconds
                ):
                    version = obj["metadata"]["resourceVersion"]
                    self._note(kind, change, obj, lines=lines)
                    if self._stop.is_set():
                        return
            except (ApiError, HTTPError) as error:
                if isinstance(error, ApiError) and error.code in {410, 504}:
                    version = ""  # that the server has forgotten, or has not reached
                time.sleep(0.5)  # not served yet, or the server restarts

    def _note(self, kind: str, change: str, obj: dict[str, Any], *, lines: dict[str, str]) -> None:
        if change not in {"ADDED", "MODIFIED", "DELETED"}:
            return
        meta = obj["metadata"]
        group = meta.get("labels", {}).get(GROUP, "")
        line = _state(kind, obj)
        if change == "MODIFIED" and lines.get(meta["uid"]) == line:
            return
        lines[meta["uid"]] = line
        version = int(meta["resourceVersion"])
        self.entries.append(Entry(datetime.now(UTC), version, change, kind, meta["name"], group, line))


def _state(kind: str, obj: dict[str, Any]) -> str:
    meta = obj["metadata"]
    if meta.get("deletionTimestamp"):
        return "being deleted"
    if kind == "Pod":
        phase = obj.get("status", {}).get("phase", "")
        return f"{phase} on {obj['spec']['nodeName']}" if obj["spec"].get("nodeName") else "no node"
    if kind == "ComputeDomain":
        status = obj.get("status") or {}
        state = "held by its controller" if meta.get("finalizers") else "made"
        nodes = status.get("nodes") or []
        cliques = sorted({node["cliqueID"] for node in nodes})
        return f"{state}, {len(nodes)} nodes" + (f" in {', '.join(cliques)}" if cliques else "")
    return "there"


class View:
    """Reads, and the few writes that play the rest of the world (other people's pods, work that ends)."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.labels: dict[str, dict[str, str]] = {}

    def load_nodes(self) -> None:
        self.labels = {
            node["metadata"]["name"]: node["metadata"].get("labels", {})
            for node in self.api.list(CORE + "/nodes")[0]
        }

    def of_group(self, namespace: str, kind: str, group: str) -> list[dict[str, Any]]:
        root, plural = KINDS[kind]
        items = self._items(f"{root}/namespaces/{namespace}/{plural}", labelSelector=f"{GROUP}={group}")
        return sorted(items, key=lambda item: item["metadata"]["name"])

    def leftovers(self, namespace: str) -> list[str]:
        """Everything in a namespace that a task group may make, whoever's it is."""
        objects = []
        for kind, (root, plural) in KINDS.items():
            items = self._items(f"{root}/namespaces/{namespace}/{plural}")
            objects += [f"{kind} {item['metadata']['name']}" for item in items]
        return objects

    def cluster_queues(self) -> set[str]:
        """The names of Kueue's ClusterQueues, whoever's they are."""
        return {item["metadata"]["name"] for item in self._items(f"{KUEUE}/clusterqueues")}

    def _items(self, path: str, **query: str) -> list[dict[str, Any]]:
        """The objects of a kind; none where the cluster does not serve it."""
        try:
            return self.api.list(path, query=query)[0]
        except ApiError as error:
            if error.code == 404:
                return []
            raise

    def domain(self, node: str, label: str) -> str:
        return self.labels[node].get(label, "")

    def finish(self, namespace: str, group: str) -> None:
        """Let the work of a group end well: kwok's pods run until told."""
        body = {"metadata": {"annotations": {RUN_FOR: "0s"}}}
        for pod in self.of_group(namespace, "Pod", group):
            try:
                self.api.patch(f"{CORE}/namespaces/{namespace}/pods/{pod['metadata']['name']}", body)
            except ApiError as error:
                if error.code != 404:  # its lead has ended, so the service deletes the others
                    raise

    def block(self, node: str) -> None:
        """Put somebody else's pod on a node; it takes all GPUs."""
        limits = {"nvidia.com/gpu": str(scenario.GPUS)}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"busy-{node}", "namespace": BLOCKERS},
            "spec": {
                "nodeName": node,
                "terminationGracePeriodSeconds": 0,
                "automountServiceAccountToken": False,
                "containers": [
                    {"name": "busy", "image": "busy", "resources": {"limits": limits, "requests": limits}}
                ],
            },
        }
        self.api.create(f"{CORE}/namespaces/{BLOCKERS}/pods", pod)

    def add_node(self, node: nodes.Node) -> None:
        nodes.create(self.api, [node])
        nodes.wait_ready(self.api, [node])
        self.load_nodes()

    def remove_node(self, node: nodes.Node) -> None:
        nodes.delete(self.api, [node])
        self.load_nodes()

    def stop_node(self, name: str) -> None:
        """Let a machine die: nothing is heard of its kubelet any more."""
        nodes.stop_kubelet(self.api, name)

    def start_node(self, name: str) -> None:
        nodes.start_kubelet(self.api, name)

    def take_label(self, label: str, nodes: Iterable[str]) -> None:
        """Take a label off nodes, as happens when the program that sets it is removed."""
        for node in nodes:
            self.api.patch(f"{CORE}/nodes/{node}", {"metadata": {"labels": {label: None}}})

    def put_label_back(self, label: str, nodes: Iterable[str]) -> None:
        """Label nodes as they were when they were loaded."""
        for node in nodes:
            value = self.domain(node, label)
            self.api.patch(f"{CORE}/nodes/{node}", {"metadata": {"labels": {label: value}}})

    def unblock(self, node: str) -> None:
        self.api.delete(f"{CORE}/namespaces/{BLOCKERS}/pods/busy-{node}")
