"""Objects of the API server, as JSON, to the values the stand-in decides on."""

import datetime as dt
from collections.abc import Mapping
from typing import Any

from localcluster.standins.affinity import required_terms
from localcluster.standins.kueue import encoding
from localcluster.standins.kueue.values import (
    Admission,
    ClusterQueue,
    Condition,
    Flavor,
    FlavorQuota,
    Guard,
    LocalQueue,
    Node,
    Pod,
    PodSet,
    PodSetAdmission,
    Request,
    Topology,
    Workload,
)
from localcluster.standins.quantities import Amounts, amount, amounts, pod_requests
from localcluster.standins.taints import taints, tolerations

Json = Mapping[str, Any]

TOPOLOGY_ANNOTATIONS = frozenset(
    f"kueue.x-k8s.io/podset-{name}"
    for name in (
        "required-topology",
        "preferred-topology",
        "unconstrained-topology",
        "slice-required-topology",
        "slice-required-topology-constraints",
    )
)
FINALIZER = "kueue.x-k8s.io/resource-in-use"
JOB_UID_LABEL = "kueue.x-k8s.io/job-uid"


def node(body: Json) -> Node:
    spec, status = body.get("spec") or {}, body.get("status") or {}
    ready = next((each for each in status.get("conditions") or () if each["type"] == "Ready"), None)
    is_ready = ready is None or ready["status"] == "True"
    since = None if ready is None or is_ready else _seconds(ready.get("lastTransitionTime"))
    return Node(
        name=body["metadata"]["name"],
        labels=body["metadata"].get("labels") or {},
        allocatable=amounts(status.get("allocatable")),
        taints=taints(spec.get("taints")),
        ready=is_ready,
        unready_since=since,
        unschedulable=bool(spec.get("unschedulable")),
    )


def pod(body: Json) -> Pod | None:
    """A pod that takes room on a node; None for one that has none or has ended."""
    meta, spec, phase = body["metadata"], body["spec"], (body.get("status") or {}).get("phase")
    if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
        return None
    annotations = meta.get("annotations") or {}
    return Pod(spec["nodeName"], _requests(spec), not TOPOLOGY_ANNOTATIONS.isdisjoint(annotations))


def namespace(body: Json) -> tuple[str, Mapping[str, str]]:
    return body["metadata"]["name"], body["metadata"].get("labels") or {}


def topology(body: Json) -> Topology:
    levels = tuple(each["nodeLabel"] for each in body["spec"]["levels"])
    return Topology(body["metadata"]["name"], levels, _guard(body))


def flavor(body: Json) -> Flavor:
    spec = body.get("spec") or {}
    return Flavor(
        name=body["metadata"]["name"],
        labels=spec.get("nodeLabels") or {},
        taints=taints(spec.get("nodeTaints")),
        tolerations=tolerations(spec.get("tolerations")),
        topology=spec.get("topologyName"),
        guard=_guard(body),
    )


def _guard(body: Json) -> Guard:
    metadata = body["metadata"]
    return Guard(FINALIZER in (metadata.get("finalizers") or ()), "deletionTimestamp" in metadata)


def cluster_queue(body: Json) -> ClusterQueue:
    spec = body.get("spec") or {}
    selector = spec.get("namespaceSelector")
    return ClusterQueue(
        name=body["metadata"]["name"],
        groups=tuple(
            (tuple(group["coveredResources"]), tuple(_quota(each) for each in group["flavors"]))
            for group in spec.get("resourceGroups") or ()
        ),
        strict=spec.get("queueingStrategy") == "StrictFIFO",
        within=(spec.get("preemption") or {}).get("withinClusterQueue", "Never"),
        stop=spec.get("stopPolicy", "None"),
        namespaces=None if selector is None else selector.get("matchLabels") or {},
        status=_queue_status(body),
        guard=_guard(body),
    )


def local_queue(body: Json) -> LocalQueue:
    meta, spec = body["metadata"], body.get("spec") or {}
    return LocalQueue(
        namespace=meta["namespace"],
        name=meta["name"],
        queue=spec.get("clusterQueue", ""),
        stop=spec.get("stopPolicy", "None"),
        status=_queue_status(body),
    )


def workload(body: Json) -> Workload:
    meta, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    conditions = status.get("conditions") or ()
    return Workload(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        version=meta["resourceVersion"],
        created=meta["creationTimestamp"],
        priority=spec.get("priority", 0),
        queue=spec.get("queueName", ""),
        pod_sets=tuple(_pod_set(each) for each in spec.get("podSets") or ()),
        conditions=tuple(
            Condition(each["type"], each["status"] == "True", each["reason"], each["message"])
            for each in conditions
        ),
        admission=_admission(status.get("admission")),
        active=spec.get("active", True),
        deleting=bool(meta.get("deletionTimestamp")),
        queued_again_at=max(
            (each["lastTransitionTime"] for each in conditions if _queues_again(each)), default=""
        ),
        job_uid=(meta.get("labels") or {}).get(JOB_UID_LABEL, "UNKNOWN"),
    )


def _queues_again(condition: Json) -> bool:
    """Whether a workload lost its place in the queue; after other evictions, preemption too, it keeps that.

    Source: ``GetQueueOrderTimestamp`` of Kueue's ``pkg/workload``, in its default configuration.
    """
    is_evicted = (condition["type"], condition["status"]) == ("Evicted", "True")
    return is_evicted and condition["reason"] in ("PodsReadyTimeout", "AdmissionCheck")


def _pod_set(body: Json) -> PodSet:
    spec = (body["template"] or {}).get("spec") or {}
    return PodSet(
        name=body.get("name", "main"),
        count=body.get("count", 1),
        requests=_requests(spec),
        request=_request(body.get("topologyRequest")),
        selector=tuple(sorted((spec.get("nodeSelector") or {}).items())),
        tolerations=tolerations(spec.get("tolerations")),
        affinity=required_terms(spec),
    )


def _request(body: Json | None) -> Request | None:
    if not body:
        return None
    return Request(
        required=body.get("required"),
        preferred=body.get("preferred"),
        unconstrained=bool(body.get("unconstrained")),
        slice_level=body.get("podSetSliceRequiredTopology"),
        slice_size=body.get("podSetSliceSize"),
        group=body.get("podSetGroupName"),
    )


def _admission(body: Json | None) -> Admission | None:
    if not body:
        return None
    return Admission(body["clusterQueue"], tuple(map(_pod_set_admission, body["podSetAssignments"])))


def _pod_set_admission(body: Json) -> PodSetAdmission:
    assignment = body.get("topologyAssignment")
    return PodSetAdmission(
        name=body.get("name", "main"),
        count=body.get("count", 0),
        flavors=tuple(sorted((body.get("flavors") or {}).items())),
        usage=tuple(sorted(amounts(body.get("resourceUsage")).items())),
        assignment=encoding.decode(assignment) if assignment else None,
    )


def _quota(body: Json) -> FlavorQuota:
    return FlavorQuota(
        body["name"], tuple((each["name"], amount(each["nominalQuota"])) for each in body["resources"])
    )


def _queue_status(body: Json) -> dict[str, Any]:
    """A queue's status without the times of its conditions."""
    status = dict(body.get("status") or {})
    names = ("type", "status", "reason", "message")
    conditions = [{name: each[name] for name in names} for each in status.pop("conditions", None) or ()]
    return status | ({"conditions": conditions} if conditions else {})


def _requests(spec: Json) -> dict[str, int]:
    return pod_requests(spec, of_container=_of_container)


def _of_container(container: Json) -> Amounts:
    resources = container.get("resources") or {}
    return amounts(resources.get("limits")) | amounts(resources.get("requests"))


def _seconds(text: str | None) -> float | None:
    return dt.datetime.fromisoformat(text).timestamp() if text else None
