"""Scheduler and kubelets of one cluster in memory: each of our pods lives its life.

A pod is bound, waits for its container, runs for ``run_seconds``, ends, and is gone when it is deleted: six
or seven events of its watch, and four Events, as on a real node. Each step is due at a time; one thread
takes them in turn, so an idle cluster costs nothing.
"""

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from cluster.kinds import EVENT, POD
from scheduling.names import GROUP_LABEL

START_SECONDS = 0.2
"""How long a container takes to start."""
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
        for target in (self._follow, self._act):
            threading.Thread(target=target, daemon=True).start()

    def _follow(self) -> None:
        for event in self._events():
            pod = event["object"]
            self.pod_events += 1
            if event["type"] == "DELETED":
                continue
            if pod.get("status", {}).get("phase") == "Succeeded":
                self.ended[pod["metadata"]["labels"].get(GROUP_LABEL, "")] = time.time()
            self._plan(pod)

    def _events(self) -> Iterator[Any]:
        version = "1"
        while True:
            with self.memory.watch(POD, resource_version=version, timeout_seconds=WATCH_SECONDS) as stream:
                for event in stream:
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        yield event

    def _plan(self, pod: Any) -> None:
        """The next step of a pod, after what its watch says of it."""
        metadata, status = pod["metadata"], pod.get("status", {})
        name, namespace, phase = metadata["name"], metadata["namespace"], status.get("phase")
        steps = {
            "unbound": (0.0, self._bind),
            "Pending": (START_SECONDS, _run) if status.get("containerStatuses") else (0.0, _create_container),
            "Running": (self.run_seconds, _end),
        }
        step = steps.get(phase if pod["spec"].get("nodeName") else "unbound")
        if "deletionTimestamp" in metadata:
            if not metadata.get("finalizers"):
                self._later(0.0, lambda: self.memory.remove(POD, name, namespace=namespace))
        elif step:
            self._later(step[0], lambda: self._edit(name, namespace, step[1]))

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
            with suppress(KeyError):  # it was deleted meanwhile
                act()

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
        event = {
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {"kind": "Pod", "name": pod, "namespace": namespace},
            "reason": reason,
            "message": f"{reason} container main of the pod",
            "type": "Normal",
            "lastTimestamp": _now(),
            "source": {"component": "kubelet"},
        }
        self.memory.put(EVENT, event)
        self.memory.remove(EVENT, name, namespace=namespace)  # only what the watch sends matters


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


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
