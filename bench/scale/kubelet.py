"""Scheduler, kubelets and NVIDIA's controller of one cluster in memory: each of our pods lives its life.

A pod is bound, waits for its container, runs for the cluster's ``run_seconds``, ends, and is gone when it is
deleted: six or seven events of its watch, and four Events, as on a real node. Each step is due at a time; one
thread takes them in turn, so an idle cluster costs nothing.
"""

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from cluster.kinds import COMPUTE_DOMAIN, EVENT, POD, RESOURCE_CLAIM_TEMPLATE
from scheduling.names import GROUP_LABEL

START_SECONDS = 0.2
"""How long a container takes to start."""
FINALIZER = "resource.nvidia.com/computeDomain"
WATCH_SECONDS = 3600


@dataclass(slots=True)
class Kubelet:
    """Plays on ``memory``, a ``tests.fakes.cluster.FakeCluster``; binds pods to ``nodes`` in turns."""

    memory: Any
    nodes: int
    run_seconds: float
    pod_events: int = 0
    """Changes of our pods that the cluster's watch has sent."""
    ended: dict[str, float] = field(default_factory=dict)
    """When the last pod of each group ended, by the uuid on its label and the time of day."""
    _due: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _numbers: Any = field(default_factory=itertools.count)
    _news: threading.Condition = field(default_factory=threading.Condition)

    def start(self) -> None:
        for target in (self._follow_pods, self._follow_domains, self._act):
            threading.Thread(target=target, daemon=True).start()

    def _follow_pods(self) -> None:
        for event in self._watch(POD):
            pod = event["object"]
            self.pod_events += 1
            if pod.get("status", {}).get("phase") == "Succeeded":
                self.ended[pod["metadata"]["labels"].get(GROUP_LABEL, "")] = time.time()
            self._plan(pod)

    def _follow_domains(self) -> None:
        for event in self._watch(COMPUTE_DOMAIN):
            metadata, kind = event["object"]["metadata"], event["type"]
            if kind == "ADDED":
                self._later(0.0, partial(self._make_template, event["object"]))
            elif "deletionTimestamp" in metadata and metadata.get("finalizers") and kind == "MODIFIED":
                self._later(0.0, partial(self._release, event["object"]))

    def _watch(self, kind: Any) -> Any:
        version = 1
        while True:
            with self.memory.watch(
                kind, resource_version=str(version), timeout_seconds=WATCH_SECONDS
            ) as stream:
                for event in stream:
                    version = int(event["object"]["metadata"]["resourceVersion"])
                    if event["type"] not in ("BOOKMARK", "DELETED"):
                        yield event
                    elif event["type"] == "DELETED" and kind == POD:
                        self.pod_events += 1

    def _plan(self, pod: Any) -> None:
        """The next step of a pod, after what its watch says of it."""
        metadata, status = pod["metadata"], pod.get("status", {})
        name, namespace, phase = metadata["name"], metadata["namespace"], status.get("phase")
        if "deletionTimestamp" in metadata:
            if not metadata.get("finalizers"):
                self._later(0.0, lambda: self._remove(name, namespace))
        elif not pod["spec"].get("nodeName"):
            self._later(0.0, lambda: self._edit(name, namespace, self._bind))
        elif phase == "Pending" and not status.get("containerStatuses"):
            self._later(0.0, lambda: self._edit(name, namespace, _create_container))
        elif phase == "Pending":
            self._later(START_SECONDS, lambda: self._edit(name, namespace, _run))
        elif phase == "Running":
            self._later(self.run_seconds, lambda: self._edit(name, namespace, _end))

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        with self._news:
            heapq.heappush(self._due, (time.monotonic() + seconds, next(self._numbers), act))
            self._news.notify()

    def _act(self) -> None:
        while True:
            with self._news:
                while not self._due or (left := self._due[0][0] - time.monotonic()) > 0:
                    self._news.wait(left if self._due else None)
                _, _, act = heapq.heappop(self._due)
            try:
                act()
            except KeyError:  # it was deleted meanwhile
                continue

    def _bind(self, pod: Any) -> None:
        pod["spec"]["nodeName"] = f"node-{next(self._numbers) % self.nodes}"

    def _edit(self, name: str, namespace: str, change: Callable[[Any], None]) -> None:
        def unless_deleted(pod: Any) -> None:
            if "deletionTimestamp" not in pod["metadata"]:
                change(pod)

        self.memory.edit(POD, name, unless_deleted, namespace=namespace)
        if change is _create_container:
            for reason in ("Scheduled", "Pulled", "Created", "Started"):
                self._put_event(name, namespace, reason)

    def _put_event(self, pod: str, namespace: str, reason: str) -> None:
        name = f"{pod}.{reason.lower()}"
        self.memory.put(
            EVENT,
            {
                "metadata": {"name": name, "namespace": namespace},
                "involvedObject": {"kind": "Pod", "name": pod, "namespace": namespace},
                "reason": reason,
                "message": f"{reason} container main of the pod",
                "type": "Normal",
                "lastTimestamp": _now(),
                "source": {"component": "kubelet"},
            },
        )
        self.memory.remove(EVENT, name, namespace=namespace)  # only what the watch sends matters

    def _remove(self, name: str, namespace: str) -> None:
        self.memory.remove(POD, name, namespace=namespace)

    def _make_template(self, domain: Any) -> None:
        metadata = domain["metadata"]
        namespace, template = (
            metadata["namespace"],
            domain["spec"]["channel"]["resourceClaimTemplate"]["name"],
        )
        self.memory.edit(COMPUTE_DOMAIN, metadata["name"], _hold, namespace=namespace)
        labels = {FINALIZER: metadata["uid"]}
        named = {"name": template, "namespace": namespace, "labels": labels}
        self.memory.put(RESOURCE_CLAIM_TEMPLATE, {"metadata": named, "spec": {"spec": {}}})

    def _release(self, domain: Any) -> None:
        metadata = domain["metadata"]
        template = domain["spec"]["channel"]["resourceClaimTemplate"]["name"]
        try:
            self.memory.remove(RESOURCE_CLAIM_TEMPLATE, template, namespace=metadata["namespace"])
        finally:
            self.memory.edit(COMPUTE_DOMAIN, metadata["name"], _let_go, namespace=metadata["namespace"])


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _hold(domain: Any) -> None:
    domain["metadata"]["finalizers"] = [*domain["metadata"].get("finalizers", ()), FINALIZER]


def _let_go(domain: Any) -> None:
    domain["metadata"]["finalizers"] = [f for f in domain["metadata"].get("finalizers", ()) if f != FINALIZER]


def _create_container(pod: Any) -> None:
    _set_containers(pod, {"waiting": {"reason": "ContainerCreating"}}, ready=False)


def _run(pod: Any) -> None:
    pod["status"] |= {"phase": "Running", "podIP": "10.0.0.1"}
    _set_containers(pod, {"running": {"startedAt": _now()}}, ready=True)


def _end(pod: Any) -> None:
    pod["status"]["phase"] = "Succeeded"
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": _now(), "finishedAt": _now()}
    _set_containers(pod, {"terminated": ended}, ready=False)


def _set_containers(pod: Any, state: Any, *, ready: bool) -> None:
    pod["status"]["containerStatuses"] = [
        {"name": container["name"], "ready": ready, "restartCount": 0, "state": state}
        for container in pod["spec"]["containers"]
    ]
    pod["status"]["conditions"] = [
        {"type": "Ready", "status": str(ready), "lastTransitionTime": _now()},
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": _now()},
    ]
