"""Objects of the API server, as JSON, to the values the scheduler decides on."""

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from typing import Any

from localcluster.standins.affinity import required_terms
from localcluster.standins.kai import needs
from localcluster.standins.kai.values import (
    Claim,
    ClaimRequest,
    Constraint,
    Device,
    Node,
    Pod,
    PodClaim,
    PodGroup,
    PodState,
    Queue,
    QueueLimit,
    QueueStatus,
    Shape,
    SubGroup,
    Topology,
    Written,
)
from localcluster.standins.quantities import UNIT, Amounts, amounts, pod_requests
from localcluster.standins.taints import taints, tolerations

Json = Mapping[str, Any]

SCHEDULER = "kai-scheduler"
GROUP_ANNOTATION = "pod-group-name"
SKIP_ANNOTATION = "kai.scheduler/skip-podgrouper"
SUBGROUP_LABEL = "kai.scheduler/subgroup-name"
QUEUE_LABEL = "kai.scheduler/queue"
STALE_ANNOTATION = "kai.scheduler/stale-podgroup-timestamp"
EVICTION_ANNOTATION = "kai.scheduler/last-eviction-timestamp"


def node(body: Json) -> Node:
    spec, status = body.get("spec") or {}, body.get("status") or {}
    conditions = {condition["type"]: condition["status"] for condition in status.get("conditions") or ()}
    return Node(
        name=body["metadata"]["name"],
        labels=body["metadata"].get("labels") or {},
        allocatable=amounts(status.get("allocatable")),
        taints=taints(spec.get("taints")),
        unschedulable=bool(spec.get("unschedulable")),
        conditions=tuple(_closing(conditions)),
    )


_PRESSURE = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")


def _closing(conditions: Mapping[str, str]) -> Iterable[str]:
    """The conditions for which KAI never uses a node, whatever a pod tolerates."""
    if conditions.get("Ready", "True") != "True":
        yield "NotReady"
    yield from (name for name in _PRESSURE if conditions.get(name, "False") != "False")


def pod(body: Json) -> Pod:
    meta, spec, status = body["metadata"], body["spec"], body.get("status") or {}
    annotations, labels = meta.get("annotations") or {}, meta.get("labels") or {}
    is_kai = spec.get("schedulerName") == SCHEDULER
    return Pod(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        created=meta["creationTimestamp"],
        state=_state(meta, spec, status),
        shape=_shape(spec, is_kai=is_kai),
        node=spec.get("nodeName") or None,
        deleted_at=_time(meta.get("deletionTimestamp")),
        group=annotations.get(GROUP_ANNOTATION) or None,
        subgroup=labels.get(SUBGROUP_LABEL) or None,
        queue_label=labels.get(QUEUE_LABEL) or None,
        claims=tuple(_pod_claims(spec, status)),
        labels=tuple(sorted(labels.items())),
        volume_claims=tuple(needs.volume_claims(meta["name"], spec)) if is_kai else (),
        config_maps=tuple(needs.config_maps(spec)) if is_kai else (),
        owned=bool(meta.get("ownerReferences")),
        skips_grouper=annotations.get(SKIP_ANNOTATION) == "true",
        is_kai=is_kai,
        unschedulable_message=_unschedulable(status),
    )


def _state(meta: Json, spec: Json, status: Json) -> PodState:
    phase = status.get("phase")
    if phase in ("Succeeded", "Failed"):
        return "succeeded" if phase == "Succeeded" else "failed"
    if meta.get("deletionTimestamp"):
        return "releasing"
    if spec.get("nodeName"):
        return "active"
    return "gated" if spec.get("schedulingGates") else "pending"


def _shape(spec: Json, *, is_kai: bool) -> Shape:
    """What placement asks; of other schedulers' pods only the room they take matters."""
    requests = tuple(sorted(_requests(spec).items()))
    if not is_kai:
        return Shape(requests)
    return Shape(
        requests=requests,
        selector=tuple(sorted((spec.get("nodeSelector") or {}).items())),
        affinity=required_terms(spec),
        tolerations=tolerations(spec.get("tolerations")),
        claims=len(spec.get("resourceClaims") or ()),
    )


def _requests(spec: Json) -> dict[str, int]:
    total = pod_requests(spec, of_container=_of_container)
    return {**{name: value for name, value in total.items() if value}, "pods": UNIT}


def _of_container(container: Json) -> Amounts:
    return amounts((container.get("resources") or {}).get("requests"))


def _pod_claims(spec: Json, status: Json) -> Iterable[PodClaim]:
    claim_names = {entry["name"]: entry for entry in status.get("resourceClaimStatuses") or ()}
    for claim in spec.get("resourceClaims") or ():
        if named := claim.get("resourceClaimName"):
            yield PodClaim(claim["name"], named)
            continue
        entry = claim_names.get(claim["name"])
        if entry is not None and not entry.get("resourceClaimName"):
            continue  # Kubernetes says so: this template needs no claim
        yield PodClaim(claim["name"], entry["resourceClaimName"] if entry else None)


def _unschedulable(status: Json) -> str | None:
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message", ""))
    return None


def pod_group(body: Json) -> PodGroup:
    meta, spec = body["metadata"], body.get("spec") or {}
    stale = (meta.get("annotations") or {}).get(STALE_ANNOTATION)
    return PodGroup(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        created=meta["creationTimestamp"],
        queue=spec.get("queue", ""),
        min_member=spec.get("minMember"),
        subgroups=tuple(_subgroup(subgroup) for subgroup in spec.get("subGroups") or ()),
        constraint=_constraint(spec.get("topologyConstraint")),
        priority_class=spec.get("priorityClassName", ""),
        preemptibility=spec.get("preemptibility", ""),
        mark_unschedulable=spec.get("markUnschedulable", True),
        stale_since=_time(stale),
        grace=seconds(spec.get("stalenessGracePeriod")),
        conditions=tuple((body.get("status") or {}).get("schedulingConditions") or ()),
    )


def _subgroup(body: Json) -> SubGroup:
    constraint = _constraint(body.get("topologyConstraint"))
    return SubGroup(body["name"], body.get("minMember"), body.get("parent"), constraint)


def _constraint(body: Json | None) -> Constraint | None:
    if not body:
        return None
    return Constraint(
        topology=body.get("topology", ""),
        required=body.get("requiredTopologyLevel", ""),
        preferred=body.get("preferredTopologyLevel", ""),
    )


def _time(text: str | None) -> float | None:
    """Read an RFC 3339 time; KAI ignores one it cannot read, and so do we."""
    try:
        return dt.datetime.fromisoformat(text).timestamp() if text else None
    except ValueError:
        return None


_DURATION = re.compile(r"([0-9.]+)(ms|us|µs|ns|h|m|s)")
_PARTS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def seconds(duration: str | None) -> float | None:
    """A Go duration (``1m30s``) in seconds; None for none, or for what is not one."""
    if not duration:
        return None
    text = duration.removeprefix("-")
    parts = _DURATION.findall(text)
    if "".join(value + unit for value, unit in parts) != text:
        return None
    total = sum(float(value) * _PARTS[unit] for value, unit in parts)
    return -total if duration.startswith("-") else total


def queue(body: Json) -> Queue:
    spec = body.get("spec") or {}
    resources = spec.get("resources") or {}
    return Queue(
        name=body["metadata"]["name"],
        parent=spec.get("parentQueue", ""),
        priority=spec.get("priority", 100),
        cpu=_limit(resources.get("cpu"), 1),  # written in millicores, kept in thousandths of a core
        memory=_limit(resources.get("memory"), 1_000_000 * UNIT),  # written in MB
        gpu=_limit(resources.get("gpu"), UNIT),
        status=_queue_status(body),
    )


def _queue_status(body: Json) -> QueueStatus | None:
    if not (status := body.get("status")):
        return None

    def written(name: str) -> Written:
        return tuple(sorted((key, str(value)) for key, value in (status.get(name) or {}).items()))

    return QueueStatus(
        queue=body["metadata"]["name"],
        children=tuple(status.get("childQueues") or ()),
        allocated=written("allocated"),
        fixed=written("allocatedNonPreemptible"),
        requested=written("requested"),
    )


def _limit(body: Json | None, factor: int) -> QueueLimit:
    def scaled(value: float) -> int:
        return -1 if value == -1 else int(value * factor)

    body = body or {}
    return QueueLimit(quota=scaled(body.get("quota", 0)), limit=scaled(body.get("limit", 0)))


def topology(body: Json) -> Topology:
    levels = (body.get("spec") or {}).get("levels") or ()
    return Topology(body["metadata"]["name"], tuple(level["nodeLabel"] for level in levels))


def priority_class(body: Json) -> tuple[str, int, bool]:
    """Name, value, and whether it is the default of the cluster."""
    return body["metadata"]["name"], body["value"], bool(body.get("globalDefault"))


def volume_claim(body: Json) -> tuple[tuple[str, str], bool]:
    """Namespace and name, and whether it is being deleted."""
    meta = body["metadata"]
    return (meta["namespace"], meta["name"]), bool(meta.get("deletionTimestamp"))


def config_map(body: Json) -> tuple[str, str]:
    """Namespace and name."""
    return body["metadata"]["namespace"], body["metadata"]["name"]


def device_class(body: Json) -> tuple[str, tuple[str, ...]]:
    """Name and CEL selectors."""
    return body["metadata"]["name"], _selectors(body.get("spec") or {})


def _selectors(body: Json) -> tuple[str, ...]:
    return tuple(
        (selector.get("cel") or {}).get("expression", "") for selector in body.get("selectors") or ()
    )


def resource_slice(body: Json) -> tuple[str, str, int, tuple[Device, ...]]:
    """Driver, pool, generation and devices of one slice; only slices of single nodes are understood."""
    spec = body["spec"]
    driver, pool = spec["driver"], spec["pool"]
    devices = (
        Device(driver, pool["name"], device["name"], spec.get("nodeName", ""), _attributes(device))
        for device in spec.get("devices") or ()
    )
    return driver, pool["name"], pool["generation"], tuple(devices)


def _attributes(device: Json) -> dict[str, Any]:
    return {name: next(iter(value.values())) for name, value in (device.get("attributes") or {}).items()}


def newest(slices: Iterable[tuple[str, str, int, tuple[Device, ...]]]) -> tuple[Device, ...]:
    """Devices of each pool's highest generation."""
    slices = tuple(slices)
    last: dict[tuple[str, str], int] = {}
    for driver, pool, generation, _ in slices:
        last[(driver, pool)] = max(generation, last.get((driver, pool), generation))
    return tuple(
        device
        for driver, pool, generation, devices in slices
        if generation == last[(driver, pool)]
        for device in devices
    )


def claim(body: Json) -> Claim:
    meta, status = body["metadata"], body.get("status") or {}
    devices_spec = body["spec"].get("devices") or {}
    allocation = status.get("allocation")
    devices = (allocation or {}).get("devices") or {}
    return Claim(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        requests=tuple(_claim_request(request) for request in devices_spec.get("requests") or ()),
        allocated=None
        if allocation is None
        else tuple(
            (result["driver"], result["pool"], result["device"]) for result in devices.get("results") or ()
        ),
        node=_selected_node(allocation),
        reserved_for=tuple(consumer["uid"] for consumer in status.get("reservedFor") or ()),
        deleting=bool(meta.get("deletionTimestamp")),
        config=tuple(devices_spec.get("config") or ()),
    )


def _claim_request(body: Json) -> ClaimRequest:
    """One request; a list of alternatives is not understood and matches no device."""
    exact = body.get("exactly") or {}
    return ClaimRequest(
        name=body["name"],
        device_class=exact.get("deviceClassName", ""),
        count=exact.get("count", 1),
        every=exact.get("allocationMode") == "All",
        selectors=_selectors(exact),
    )


def _selected_node(allocation: Json | None) -> str | None:
    terms = ((allocation or {}).get("nodeSelector") or {}).get("nodeSelectorTerms") or ()
    for term in terms:
        for field in term.get("matchFields") or ():
            if field["key"] == "metadata.name" and field.get("values"):
                return str(field["values"][0])
    return None
