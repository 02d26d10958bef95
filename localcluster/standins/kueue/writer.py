"""Decisions to writes of status. Each names the version that was decided on; a late writer decides anew."""

import datetime as dt
import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import urllib3

from localcluster.api import Api, ApiError, Json
from localcluster.standins.kueue import encoding
from localcluster.standins.kueue.assign import written
from localcluster.standins.kueue.reader import FINALIZER
from localcluster.standins.kueue.values import (
    Admission,
    Change,
    ClusterQueue,
    Condition,
    Flavor,
    GuardChange,
    LocalQueue,
    PodSetAdmission,
    QueueStatus,
    Topology,
)
from localcluster.standins.mirror import Mirror
from localcluster.standins.quantities import shortest

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
THREADS = 8

log = logging.getLogger(__name__)


class Writer:
    """Writes status of Workloads and queues; the answers go into the mirrors at once."""

    def __init__(
        self,
        api: Api,
        *,
        workloads: Mirror[Any],
        queues: Mirror[Any],
        local: Mirror[Any],
        flavors: Mirror[Any],
        topologies: Mirror[Any],
    ) -> None:
        self.api = api
        self.workloads, self.queues, self.local = workloads, queues, local
        self.guarded: dict[type, tuple[str, Mirror[Any]]] = {
            ClusterQueue: ("clusterqueues", queues),
            Flavor: ("resourceflavors", flavors),
            Topology: ("topologies", topologies),
        }
        self.pool = ThreadPoolExecutor(THREADS, "write")

    def write(self, changes: Iterable[Change], statuses: Iterable[QueueStatus]) -> bool:
        """Write what differs; return whether all went well."""
        due = [change for change in changes if differs(change)]
        results = [*self.pool.map(self._change, due), *self.pool.map(self._status, statuses)]
        return all(results)

    def guard(self, changes: Iterable[GuardChange]) -> bool:
        """Put Kueue's finalizer on objects or take it off; return whether all went well."""
        return all([*self.pool.map(self._guard, changes)])

    def _guard(self, change: GuardChange) -> bool:
        plural, mirror = self.guarded[type(change.of)]
        path = f"{KUEUE}/{plural}/{change.of.name}"
        body = self._read(path)
        if body is None:
            return True
        metadata = body["metadata"]
        others = [each for each in metadata.get("finalizers") or () if each != FINALIZER]
        metadata["finalizers"] = [*others, FINALIZER] if change.on else others
        try:
            answer = self.api.replace(path, rewritten(body))
        except (ApiError, urllib3.exceptions.HTTPError, OSError) as error:
            log.warning("%s: %s", path, error)
            return isinstance(error, ApiError) and error.code == 404
        if "deletionTimestamp" not in answer["metadata"]:
            mirror.put(answer)
        return True

    def _change(self, change: Change) -> bool:
        workload = change.workload
        path = f"{KUEUE}/namespaces/{workload.namespace}/workloads/{workload.name}"
        body = self._read(path, uid=workload.uid, version=workload.version)
        if body is None:
            return False
        status = body.get("status") or {}
        fresh: Json = {"conditions": merged(status.get("conditions") or [], change.conditions)}
        if change.readmit and change.admission is not None:
            fresh["admission"] = admission(change.admission)
        return self._put(path, body | {"status": status | fresh}, self.workloads)

    def _status(self, change: QueueStatus) -> bool:
        queue = change.queue
        if isinstance(queue, LocalQueue):
            path, mirror = f"{KUEUE}/namespaces/{queue.namespace}/localqueues/{queue.name}", self.local
        else:
            path, mirror = f"{KUEUE}/clusterqueues/{queue.name}", self.queues
        body = self._read(path)
        if body is None:
            return True
        status = dict(change.status)
        conditions = [
            Condition(each["type"], each["status"] == "True", each["reason"], each["message"])
            for each in status.pop("conditions")
        ]
        before = (body.get("status") or {}).get("conditions") or []
        return self._put(path, body | {"status": status | {"conditions": merged(before, conditions)}}, mirror)

    def _read(self, path: str, *, uid: str = "", version: str = "") -> Json | None:
        """The object, if it is still the one that was decided on."""
        try:
            body = self.api.find(path)
        except (ApiError, urllib3.exceptions.HTTPError, OSError) as error:
            log.warning("%s: %s", path, error)
            return None
        if body is None or (uid and body["metadata"]["uid"] != uid):
            return None
        return None if version and body["metadata"]["resourceVersion"] != version else body

    def _put(self, path: str, body: Json, mirror: Mirror[Any]) -> bool:
        try:
            answer = self.api.replace(f"{path}/status", body)
        except (ApiError, urllib3.exceptions.HTTPError, OSError) as error:
            log.warning("%s: %s", path, error)
            return isinstance(error, ApiError) and error.code == 404
        mirror.put(answer)
        log.info("wrote the status of %s", path)
        return True


def rewritten(body: Json) -> Json:
    """The object as Go writes it: quotas in their shortest form (1000 is 1k)."""
    for group in (body.get("spec") or {}).get("resourceGroups") or ():
        for flavor in group["flavors"]:
            for resource in flavor["resources"]:
                resource["nominalQuota"] = shortest(resource["nominalQuota"])
    return body


def differs(change: Change) -> bool:
    """Whether a change says something that its workload does not say yet."""
    workload = change.workload
    if change.readmit and change.admission != workload.admission:
        return True
    return any(workload.condition(each.type) != each for each in change.conditions)


def merged(before: Iterable[Json], fresh: Iterable[Condition]) -> list[Json]:
    """Conditions of others as they were; a time changes only with the status."""
    conditions = {each["type"]: each for each in before}
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for each in fresh:
        status = "True" if each.status else "False"
        old = conditions.get(each.type)
        same = old is not None and old["status"] == status
        conditions[each.type] = {
            "type": each.type,
            "status": status,
            "reason": each.reason,
            "message": each.message,
            "lastTransitionTime": old["lastTransitionTime"] if old is not None and same else now,
        }
    return list(conditions.values())


def admission(value: Admission) -> Json:
    """``status.admission`` as JSON."""
    return {"clusterQueue": value.queue, "podSetAssignments": [_pod_set(each) for each in value.pod_sets]}


def _pod_set(value: PodSetAdmission) -> Json:
    body: Json = {
        "name": value.name,
        "count": value.count,
        "flavors": dict(value.flavors),
        "resourceUsage": {name: written(amount) for name, amount in value.usage},
    }
    if value.assignment is not None and value.assignment.domains:
        body["topologyAssignment"] = encoding.encode(value.assignment)
    return body
