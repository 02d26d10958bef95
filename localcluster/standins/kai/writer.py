"""Decisions to requests: claims, bindings, deletions, conditions, events.

Bindings go first, each after the claims of its pod. A write that fails is logged and reported to the caller,
who looks again soon: the next cycle decides anew from what is in the cluster. An object that is gone
(404) needs nothing any more. Events are written behind the others' back, as far as ``broadcast`` lets them.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

import urllib3

from localcluster.api import STRATEGIC_PATCH, Api, ApiError, Json
from localcluster.standins.kai.broadcast import QUEUE, Filter
from localcluster.standins.kai.reader import EVICTION_ANNOTATION, SCHEDULER, STALE_ANNOTATION
from localcluster.standins.kai.report import timestamp
from localcluster.standins.kai.values import (
    NODE_POOL,
    Binding,
    Claim,
    ClaimAllocation,
    Event,
    Eviction,
    EvictionMark,
    GroupCondition,
    Pod,
    PodUnschedulable,
    QueueStatus,
    StaleMark,
)

THREADS = 8
GROUPS = "/apis/scheduling.run.ai/v2alpha2"
QUEUES = "/apis/scheduling.run.ai/v2/queues"
RESOURCES = "/apis/resource.k8s.io/v1"

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(slots=True)
class Answers:
    """Where the answers to writes go, so that the next cycle knows them."""

    pod: Callable[[Json], None]
    group: Callable[[Json], None]
    claim: Callable[[Json], None]
    queue: Callable[[Json], None]


@dataclass(slots=True)
class Writer:
    """Carries out decisions; safe to use from one thread, works with several."""

    api: Api
    answers: Answers
    event_limits: bool = True
    evictions_on_pods: bool = False
    """KAI's flag ``--update-pod-eviction-condition``."""
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(THREADS, "write"))
    _events: "queue.Queue[Event]" = field(default_factory=lambda: queue.Queue(QUEUE))
    _filter: Filter = field(init=False)
    _number: int = 0

    def __post_init__(self) -> None:
        self._filter = Filter(time.time, limited=self.event_limits)

    def start(self) -> None:
        """Begin to write events."""
        threading.Thread(target=self._write_events, name="events", daemon=True).start()

    def bind(self, bindings: Iterable[Binding]) -> list[Binding]:
        """Allocate claims and bind; return the bindings that failed."""
        return [binding for binding, done in self._all(self._bind, bindings) if not done]

    def evict(self, evictions: Iterable[Eviction]) -> list[Eviction]:
        """Delete the pods, with an event on their group; return the evictions that failed."""
        return [eviction for eviction, done in self._all(self._evict, evictions) if not done]

    def note(
        self,
        marks: Iterable[StaleMark],
        evictions: Iterable[EvictionMark],
        conditions: Iterable[GroupCondition],
        pods: Iterable[PodUnschedulable],
        queues: Iterable[QueueStatus],
    ) -> bool:
        """Write annotations and conditions; return whether all were written."""
        done = [
            *self._all(self._mark, marks),
            *self._all(self._mark_eviction, evictions),
            *self._all(self._condition, conditions),
            *self._all(self._unschedulable, pods),
            *self._all(self._queue_status, queues),
        ]
        return all(ok for _, ok in done)

    def report(self, events: Iterable[Event]) -> None:
        """Queue what may be sent of the events of one cycle."""
        for event in self._filter.cycle(events):
            self._send(event)

    def _once(self, event: Event) -> None:
        if passed := self._filter.once(event):
            self._send(passed)

    def _send(self, event: Event) -> None:
        try:
            self._events.put_nowait(event)
        except queue.Full:
            log.warning("event dropped: %s of %s/%s", event.reason, event.namespace, event.name)

    def _all(self, write: Callable[[T], None], things: Iterable[T]) -> list[tuple[T, bool]]:
        things = list(things)
        if len(things) == 1:
            return [(things[0], self._try(write, things[0]))]
        return list(zip(things, self._pool.map(lambda thing: self._try(write, thing), things), strict=True))

    def _try(self, write: Callable[[T], None], thing: T) -> bool:
        try:
            write(thing)
        except ApiError as error:
            if error.code == 404:
                return True
            log.warning("%s", error)
            return False
        except (urllib3.exceptions.HTTPError, OSError) as error:
            log.warning("%s failed: %s", write.__name__.strip("_"), error)
            return False
        return True

    def _bind(self, binding: Binding) -> None:
        for allocation in binding.allocations:
            self._allocate(allocation, binding.pod)
        for claim in binding.reserve:
            self._patch_claim(claim, {"reservedFor": [_user(binding.pod)]})
        pod = binding.pod
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding"
        try:
            self.api.create(path, _binding(pod, binding.node))
        except ApiError as error:
            self._binding_failed(binding, error)
            raise
        where = f"node {binding.node} at node-pool {NODE_POOL}"
        text = f"Successfully assigned pod {pod.namespace}/{pod.name} to {where}"
        self._once(Event("Pod", pod.namespace, pod.name, pod.uid, "Normal", "Scheduled", text))

    def _binding_failed(self, binding: Binding, error: ApiError) -> None:
        pod = binding.pod
        self._try(self._bound, (pod, error.message))
        text = f"Failed to bind pod {pod.namespace}/{pod.name} to node {binding.node}. {error.message}"
        self._once(Event("Pod", pod.namespace, pod.name, pod.uid, "Warning", "FailedBinding", text))

    def _allocate(self, allocation: ClaimAllocation, pod: Pod) -> None:
        status = {"allocation": _allocation(allocation), "reservedFor": [_user(pod)]}
        self._patch_claim(allocation.claim, status)

    def _patch_claim(self, claim: Claim, status: Json) -> None:
        """Merge into the status; other pods' reservations stay, their list is keyed by uid."""
        path = f"{RESOURCES}/namespaces/{claim.namespace}/resourceclaims/{claim.name}/status"
        body = {"metadata": {"uid": claim.uid}, "status": status}
        self.answers.claim(self.api.patch(path, body, content_type=STRATEGIC_PATCH))

    def _evict(self, eviction: Eviction) -> None:
        group, pod, text = eviction.group, eviction.pod, eviction.message
        updated = Event(
            "PodGroup", group.namespace, group.name, group.uid, "Normal", "Evict", text, eviction.annotations
        )
        self._once(updated)
        if self.evictions_on_pods:
            self._pod_condition(pod, "DisruptionTarget", "PreemptionByScheduler", text, status="True")
        log.info("evict %s/%s: %s", pod.namespace, pod.name, text)
        self.api.delete(
            f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}",
            body={"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod.uid}},
        )

    def _mark(self, mark: StaleMark) -> None:
        stamp = None if mark.since is None else timestamp(mark.since)
        body = {"metadata": {"uid": mark.group.uid, "annotations": {STALE_ANNOTATION: stamp}}}
        group = mark.group
        log.info("%s/%s is %s", group.namespace, group.name, "stale" if stamp else "no longer stale")
        self.answers.group(self.api.patch(_group_path(group.namespace, group.name), body))

    def _mark_eviction(self, mark: EvictionMark) -> None:
        annotations = {EVICTION_ANNOTATION: timestamp(mark.at)}
        body = {"metadata": {"uid": mark.group.uid, "annotations": annotations}}
        group = mark.group
        self.answers.group(self.api.patch(_group_path(group.namespace, group.name), body))

    def _condition(self, condition: GroupCondition) -> None:
        group = condition.group
        body = {
            "metadata": {"uid": group.uid},
            "status": {"schedulingConditions": list(condition.conditions) or None},
        }
        self.answers.group(self.api.patch(f"{_group_path(group.namespace, group.name)}/status", body))

    def _unschedulable(self, refusal: PodUnschedulable) -> None:
        self._pod_condition(refusal.pod, "PodScheduled", "Unschedulable", refusal.message)

    def _bound(self, failure: tuple[Pod, str]) -> None:
        """A binder's failure stands in the pod (binder/controllers, pod condition PodBound)."""
        pod, message = failure
        self._pod_condition(pod, "PodBound", "BindingError", message)

    def _pod_condition(
        self, pod: Pod, kind: str, reason: str, message: str, *, status: str = "False"
    ) -> None:
        condition = {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": timestamp(time.time()),
        }
        body = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
        self.answers.pod(self.api.patch(path, body, content_type=STRATEGIC_PATCH))

    def _queue_status(self, status: QueueStatus) -> None:
        """Replace the status: an update, because a merge would keep resources that are no longer in use."""
        path = f"{QUEUES}/{status.queue}"
        queue = self.api.get(path)
        queue["status"] = {
            "childQueues": list(status.children),
            "allocated": dict(status.allocated),
            "allocatedNonPreemptible": dict(status.fixed),
            "requested": dict(status.requested),
        }
        self.answers.queue(self.api.replace(f"{path}/status", queue))

    def _write_events(self) -> None:
        while True:
            self._try(self._post, self._events.get())

    def _post(self, event: Event) -> None:
        self._number += 1
        body = _event(event, number=self._number)
        try:
            self.api.create(f"/api/v1/namespaces/{event.namespace}/events", body)
        except ApiError as error:
            if error.code != 403:  # the namespace is being deleted: nobody will read it
                raise


def _group_path(namespace: str, name: str) -> str:
    return f"{GROUPS}/namespaces/{namespace}/podgroups/{name}"


def _binding(pod: Pod, node: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def _user(pod: Pod) -> Json:
    return {"resource": "pods", "name": pod.name, "uid": pod.uid}


def _allocation(allocation: ClaimAllocation) -> Json:
    results = [
        {"request": request, "driver": driver, "pool": pool, "device": device}
        for request, (driver, pool, device) in allocation.devices
    ]
    config = [{**config, "source": "FromClaim"} for config in allocation.claim.config]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [allocation.node]}]}
    return {
        "devices": {"results": results, **({"config": config} if config else {})},
        "nodeSelector": {"nodeSelectorTerms": [term]},
    }


def _event(event: Event, *, number: int) -> Json:
    now = timestamp(time.time())
    group = "v1" if event.kind == "Pod" else "scheduling.run.ai/v2alpha2"
    return {
        "metadata": {
            "namespace": event.namespace,
            "name": f"{event.name}.{time.time_ns():x}{number:04x}"[-253:],
            "annotations": dict(event.annotations),
        },
        "involvedObject": {
            "apiVersion": group,
            "kind": event.kind,
            "namespace": event.namespace,
            "name": event.name,
            "uid": event.uid,
        },
        "type": event.type,
        "reason": event.reason,
        "message": event.message[:1024],
        "source": {"component": SCHEDULER},
        "reportingComponent": SCHEDULER,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
