"""Digests of cluster objects: the few fields that statuses and explanations are read from.

A pod in full is 5 KiB and there may be 10,000; its digest is a few hundred bytes. The functions are pure
and used by the observer, which follows everything, and by reconcile, which reads live if it must, so both
reduce a pod the same way. Times stay as the cluster wrote them (RFC 3339).

A digest leaves out empty fields. Texts come from outside and are cut.
"""

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from cluster.quantities import quantity
from scheduling import names
from scheduling.backends.base import ReadBack, ResourceKind
from scheduling.backends.facets import BoundedQueues, JoinedQueues, TopologyObjects
from scheduling.nodes.channels import node_with_channel
from scheduling.nodes.devices import CLASSES, SLICES, read_class, read_slice
from scheduling.nodes.node_health import MOST_CONDITIONS, MOST_TYPE, READY
from scheduling.topology.levels import HOSTNAME_LABEL
from web.times import read_instant
from workflows.values.pod_changes import SENT_ANNOTATION, compare

Json = dict[str, Any]

MAX_TEXT = 500
DOMAIN_LABEL = "resource.nvidia.com/computeDomain"
DISRUPTION = "DisruptionTarget"
PREEMPTED = "PreemptionByScheduler"
_ENDED = ("Succeeded", "Failed")
MEMBERS_ANNOTATION = "osmo.nvidia.com/members"
"""On a pod group whose minimums were changed: a digest of the tasks that they count."""

STAGE_ANNOTATION = "osmo.nvidia.com/stage"
"""On a pod group at a later stage of patience than the first: its number."""

PREFERENCE_LEVELS_ANNOTATION = "osmo.nvidia.com/preference-levels"
"""On a pod group whose preferences gave way: how many levels they may still name."""

ORDER_ANNOTATION = "osmo.nvidia.com/order"
"""On a pod group whose sets have an order of their own: a digest of it."""

PINS_ANNOTATION = "osmo.nvidia.com/pins"
"""On a pod that is held to its peers' domain: the node labels that do it, as JSON."""

MOST_PINS_TEXT = 8192
"""Characters of that annotation: 16 levels of the longest labels and values fit in it."""

PINNED_SETS_ANNOTATION = "osmo.nvidia.com/pinned-sets"
"""On a pod group, and a label of its pods, with sets that node labels keep in a domain: a digest of them."""

LEFT_OUT_ANNOTATION = "osmo.nvidia.com/left-out-nodes"
"""On a pod group that asks for room elsewhere than on some nodes: a digest of their names."""

POD_GROUP = "PodGroup"
"""The kind of every scheduler's pod groups in rows; ``api`` in the digest names the scheduler's API."""

ENDED_ANNOTATION = "osmo.nvidia.com/ended-peers"
"""On a pod with a start barrier: the host names of tasks of its group that have ended."""

_OWN_ANNOTATIONS = (
    LEFT_OUT_ANNOTATION,
    MEMBERS_ANNOTATION,
    ORDER_ANNOTATION,
    PINNED_SETS_ANNOTATION,
    PREFERENCE_LEVELS_ANNOTATION,
    STAGE_ANNOTATION,
)
_GROUP_IN_NAME = re.compile(r"(?:osmo-)?([0-9a-f]{32})(?:-|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSeen:
    """A pod of ours; its fields are columns of ``ObservedPod``."""

    namespace: str
    name: str
    uid: str
    group_uuid: UUID
    phase: str
    """By its own containers, whatever those do that the cluster put into it."""

    node_name: str = ""
    pod_ip: str = ""
    deleting: bool = False

    absent: bool = False
    """Whether it is no longer in the cluster; the other fields are then as last seen."""

    digest: Mapping[str, Any] = field(default_factory=dict)
    resource_version: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectSeen:
    """A pod group, ComputeDomain or claim template of ours; its fields are columns of ``ObservedObject``."""

    kind: str
    namespace: str
    name: str
    uid: str
    group_uuid: UUID
    deleting: bool = False
    absent: bool = False
    digest: Mapping[str, Any] = field(default_factory=dict)
    resource_version: str = field(default="", repr=False)


POD_COLUMNS = tuple(field.name for field in fields(PodSeen))
"""The columns of a pod's row, but for its cluster and when it was seen."""

OBJECT_COLUMNS = tuple(field.name for field in fields(ObjectSeen) if field.name != "absent")
"""The same of an object's row, which is deleted with the object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSeen:
    name: str
    uid: str
    labels: Mapping[str, str]
    taints: tuple[Mapping[str, Any], ...]
    allocatable: Mapping[str, str]
    unschedulable: bool
    ready: bool
    conditions: tuple[Mapping[str, str], ...] = ()
    created_at: datetime | None = None
    absent: bool = False
    resource_version: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignUsageSeen:
    """What other tenants' pods use of a node.

    ``amounts`` are GPUs, thousandths of a core, memory and storage in bytes, and pods; ``shares`` is JSON of
    lists: a namespace, the queue and priority by which its pods may be preempted or null, and their amounts.
    """

    node: str
    amounts: tuple[int, int, int, int, int]
    shares: str = "[]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSeen:
    """An object of the cluster's own, ours or somebody else's; ``reading`` is what its row keeps of it.

    ``name`` of an object in a namespace is ``namespace/name``.
    """

    resource: str
    name: str
    uid: str = ""
    reading: Mapping[str, Any] = field(default_factory=dict)
    absent: bool = False
    resource_version: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableObject:
    """An object that its reducer cannot read; ``kind`` is the first part of the key that it would have."""

    kind: str
    namespace: str
    name: str
    error: str
    absent: bool = False
    resource_version: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSeen:
    """An event of the cluster about an object of ours."""

    uid: str
    count: int
    kind: str
    namespace: str
    name: str

    group: UUID | None
    """None: it names a pod alone."""

    time: str
    source: str
    warning: bool
    reason: str
    message: str
    resource_version: str = field(default="", repr=False)

    @property
    def dedupe(self) -> str:
        """One row for each doubling of the count: a scheduler repeats itself every second for days."""
        return f"cluster:{self.uid}:{self.count.bit_length()}"


def see_pod(obj: Mapping[str, Any]) -> PodSeen | None:
    """Reduce a pod; None if it names no group."""
    metadata, status = obj["metadata"], obj.get("status") or {}
    group, notes = group_of(metadata), metadata.get("annotations") or {}
    if group is None:
        return None
    spec = obj.get("spec") or {}
    comparison = compare(notes.get(SENT_ANNOTATION), spec)
    containers = [
        *(_container(c, init=True) for c in status.get("initContainerStatuses") or ()),
        *(_container(c, init=False) for c in status.get("containerStatuses") or ()),
    ]
    phase = status.get("phase") or "Pending"
    if comparison.injected:
        _mark_injected(containers, comparison.injected, spec)
        phase = _own_phase(phase, str(status.get("reason") or ""), containers)
    return PodSeen(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata["uid"],
        group_uuid=group,
        phase=phase,
        node_name=spec.get("nodeName") or "",
        pod_ip=status.get("podIP") or "",
        deleting="deletionTimestamp" in metadata,
        resource_version=_version(metadata),
        digest=_filled(
            created=metadata.get("creationTimestamp"),
            deletion=metadata.get("deletionTimestamp"),
            grace=metadata.get("deletionGracePeriodSeconds"),
            reason=status.get("reason"),
            message=_cut(status.get("message")),
            conditions=[_condition(c) for c in status.get("conditions") or () if _matters(c)],
            containers=containers,
            changes=[asdict(change) for change in comparison.changes],
            kept_by=_kept_by(spec, comparison.injected, containers) if _lasts(phase, status) else None,
            claims=[
                str(claim["resourceClaimName"])
                for claim in status.get("resourceClaimStatuses") or ()
                if claim.get("resourceClaimName")
            ],
            assigned=_assigned(spec),
            pins=_short(notes.get(PINS_ANNOTATION)),
            ended=text_digest(notes.get(ENDED_ANNOTATION)),
        ),
    )


def _mark_injected(containers: Sequence[Json], injected: Collection[str], spec: Mapping[str, Any]) -> None:
    """Mark containers that the cluster put into the pod; sidecars are those that always restart."""
    always = {c["name"] for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"}
    for container in containers:
        if container.get("name") in injected:
            container["injected"] = "sidecar" if container["name"] in always else "container"


def _own_phase(phase: str, reason: str, containers: Sequence[Mapping[str, Any]]) -> str:
    """The phase that the pod would have without the containers that were put into it.

    A kubelet that ends or refuses a pod gives a reason, and its word stands.
    """
    states = [
        (container.get("state"), container.get("exit"))
        for container in containers
        if not container.get("init") and not container.get("injected")
    ]
    if not states or (phase == "Failed" and reason):
        return phase
    if all(state == "terminated" for state, _ in states):
        return "Succeeded" if all(code == 0 for _, code in states) else "Failed"
    return "Running" if any(state == "running" for state, _ in states) else phase


def _lasts(phase: str, status: Mapping[str, Any]) -> bool:
    """Whether a pod stays although its own containers have ended."""
    return phase in _ENDED and (status.get("phase") or "Pending") not in _ENDED


def _kept_by(
    spec: Mapping[str, Any], injected: Collection[str], containers: Sequence[Mapping[str, Any]]
) -> list[str]:
    """The injected containers that have not ended; without sidecars, which its kubelet ends."""
    ended = {container.get("name") for container in containers if container.get("state") == "terminated"}
    names = (str(container["name"]) for container in spec.get("containers") or ())
    return [name for name in names if name in injected and name not in ended]


def _assigned(spec: Mapping[str, Any]) -> str | None:
    """The one node, by its label kubernetes.io/hostname, on which a pod without a node may stand."""
    host = (spec.get("nodeSelector") or {}).get(HOSTNAME_LABEL)
    return None if spec.get("nodeName") else _short(host)


def _matters(condition: Mapping[str, Any]) -> bool:
    return (
        condition.get("type") in ("PodScheduled", "PodBound", "Ready", DISRUPTION)
        or condition.get("reason") == PREEMPTED
    )


def _condition(condition: Mapping[str, Any]) -> Json:
    return _filled(
        type=condition.get("type"),
        status=condition.get("status"),
        reason=condition.get("reason"),
        message=_cut(condition.get("message")),
        since=condition.get("lastTransitionTime"),
    )


def _container(status: Mapping[str, Any], *, init: bool) -> Json:
    state = status.get("state") or {}
    name = next(iter(state), "")
    detail = state.get(name) or {}
    container = _filled(
        name=status.get("name"),
        init=init,
        state=name,
        reason=detail.get("reason"),
        message=_cut(detail.get("message")),
        since=detail.get("startedAt"),
        finished=detail.get("finishedAt"),
    )
    return container | ({"exit": detail.get("exitCode")} if name == "terminated" else {})


def see_pod_group(obj: Mapping[str, Any], *, api: str, read_back: ReadBack) -> ObjectSeen | None:
    """Reduce a pod group to its spec and what its scheduler backend reads; ``api`` is its ``apiVersion``."""
    metadata, status = obj["metadata"], obj.get("status") or {}
    notes = metadata.get("annotations") or {}
    return _object(
        POD_GROUP,
        metadata,
        api=api,
        created=metadata.get("creationTimestamp"),
        spec=obj.get("spec"),
        status={key: status[key] for key in read_back.status if key in status},
        annotations={key: notes[key] for key in (*read_back.annotations, *_OWN_ANNOTATIONS) if key in notes},
    )


def see_parent(kind: str, obj: Mapping[str, Any]) -> ObjectSeen | None:
    """That there is something above pod groups; nothing is read in it, and its scheduler writes no status."""
    return _object(kind, obj["metadata"])


def see_compute_domain(obj: Mapping[str, Any]) -> ObjectSeen | None:
    return _object("ComputeDomain", obj["metadata"], status=obj.get("status"))


def see_claim_template(obj: Mapping[str, Any]) -> ObjectSeen | None:
    """Reduce a claim template that NVIDIA's controller created for a ComputeDomain of ours."""
    metadata = obj["metadata"]
    domain = (metadata.get("labels") or {}).get(DOMAIN_LABEL)
    return _object("ResourceClaimTemplate", metadata, domain=domain) if domain else None


def _object(kind: str, metadata: Mapping[str, Any], **digest: Any) -> ObjectSeen | None:
    group = group_of(metadata)
    if group is None:
        return None
    return ObjectSeen(
        kind=kind,
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata["uid"],
        group_uuid=group,
        deleting="deletionTimestamp" in metadata,
        resource_version=_version(metadata),
        digest=_filled(**digest),
    )


def see_node(obj: Mapping[str, Any]) -> NodeSeen:
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    conditions = [_node_condition(c) for c in status.get("conditions") or ()]
    return NodeSeen(
        name=metadata["name"],
        uid=metadata["uid"],
        labels=metadata.get("labels") or {},
        taints=tuple(spec.get("taints") or ()),
        allocatable=status.get("allocatable") or {},
        unschedulable=bool(spec.get("unschedulable")),
        ready=any(c["type"] == READY and c["status"] == "True" for c in conditions),
        conditions=tuple(conditions[:MOST_CONDITIONS]),
        created_at=read_instant(metadata.get("creationTimestamp")),
        resource_version=_version(metadata),
    )


def _node_condition(condition: Mapping[str, Any]) -> dict[str, str]:
    """Without its message and heartbeat, which change when nothing else does."""
    return {
        "type": str(condition.get("type") or "")[:MOST_TYPE],
        "status": str(condition.get("status") or "")[:MOST_TYPE],
        "reason": str(condition.get("reason") or "")[:MOST_TYPE],
        "since": str(condition.get("lastTransitionTime") or "")[:MOST_TYPE],
    }


def see_topology(topologies: TopologyObjects, obj: Mapping[str, Any]) -> ResourceSeen:
    """Reduce a topology object to its levels, as the scheduler backend that knows the kind reads them."""
    return _resource_of(topologies.kind.crd, obj, {"labels": list(topologies.levels_in(obj))})


def see_queue(queues: BoundedQueues, obj: Mapping[str, Any]) -> ResourceSeen:
    """Reduce a queue to its parent, its bounds and what is in use below it."""
    return _resource_of(queues.queue.crd, obj, queues.read_queue(obj, quantity=quantity).to_json())


def see_joined(queues: JoinedQueues, kind: ResourceKind, obj: Mapping[str, Any]) -> ResourceSeen:
    """Reduce a queue that gangs may join, or what it leads to, as its scheduler backend reads it."""
    return _resource_of(
        kind.crd, obj, queues.read_joined(kind, obj, quantity=quantity), namespaced=kind.namespaced
    )


def see_slice(obj: Mapping[str, Any]) -> ResourceSeen:
    """Reduce a ResourceSlice to its devices, and whether it gives its node an NVLink channel."""
    devices = read_slice(obj.get("spec") or {})
    return _resource_of(SLICES, obj, {"has_channel": bool(node_with_channel(obj)), **asdict(devices)})


def see_class(obj: Mapping[str, Any]) -> ResourceSeen:
    """Reduce a DeviceClass to the resource that it names; one that names none counts as absent."""
    device_class = read_class(obj)
    entry = _resource_of(CLASSES, obj, asdict(device_class) if device_class else {})
    return replace(entry, absent=device_class is None)


def _resource_of(
    resource: str, obj: Mapping[str, Any], reading: Mapping[str, Any], *, namespaced: bool = False
) -> ResourceSeen:
    metadata = obj["metadata"]
    namespace = f"{metadata['namespace']}/" if namespaced else ""
    return ResourceSeen(
        resource=resource,
        name=f"{namespace}{metadata['name']}",
        uid=metadata["uid"],
        reading=reading,
        resource_version=_version(metadata),
    )


def see_event(
    obj: Mapping[str, Any], *, kinds: Collection[str], annotations: Collection[str] = ()
) -> EventSeen | None:
    """Reduce an event; None if it is about no object of ours.

    ``kinds`` are those to keep, ``annotations`` those that name what a pod was evicted for.
    """
    metadata, about = obj["metadata"], obj.get("involvedObject") or {}
    kind, name = str(about.get("kind") or ""), str(about.get("name") or "")
    match = _GROUP_IN_NAME.match(name)
    if kind not in kinds or match is None:
        return None
    series, source = obj.get("series") or {}, obj.get("source") or {}
    return EventSeen(
        uid=str(metadata.get("uid") or metadata["name"]),
        count=max(int(series.get("count") or obj.get("count") or 1), 1),
        kind=kind,
        namespace=str(about.get("namespace") or metadata.get("namespace") or ""),
        name=name,
        group=None if kind == "Pod" else UUID(match[1]),
        time=str(
            series.get("lastObservedTime")
            or obj.get("lastTimestamp")
            or obj.get("eventTime")
            or obj.get("firstTimestamp")
            or metadata.get("creationTimestamp")
            or ""
        ),
        source=str(obj.get("reportingComponent") or source.get("component") or kind)[:63],
        warning=obj.get("type") == "Warning",
        reason=str(obj.get("reason") or "")[:128],
        message=_with_action(obj, annotations),
        resource_version=_version(metadata),
    )


def _with_action(obj: Mapping[str, Any], annotations: Collection[str]) -> str:
    """An event's message, and behind it the action that only one of these annotations has."""
    message = str(obj.get("message") or "")[:MAX_TEXT]
    notes = obj["metadata"].get("annotations") or {}
    action = next((notes[key] for key in annotations if notes.get(key)), None)
    return f"{message} (action: {str(action)[:63]})" if action else message


def group_of(metadata: Mapping[str, Any]) -> UUID | None:
    """The task group of an object, by its label, or by its name if another controller created it."""
    text = (metadata.get("labels") or {}).get(names.GROUP_LABEL)
    if text is None and (match := _GROUP_IN_NAME.match(metadata["name"])):
        text = match[1]
    try:
        return UUID(text) if text else None
    except ValueError:
        return None


def is_older(version: str, *, than: str) -> bool:
    """Whether a resource version is certainly the older one of two of one kind.

    Versions are opaque, but those of built-in and custom kinds are numbers that grow (promised since
    Kubernetes 1.35, KEP-5504). Where one is none, nothing is certain.
    """
    return _is_number(version) and _is_number(than) and int(version) < int(than)


def _is_number(version: str) -> bool:
    return version.isascii() and version.isdigit()


def _version(metadata: Mapping[str, Any]) -> str:
    return str(metadata.get("resourceVersion") or "")[:64]


def _filled(**values: Any) -> Json:
    return {key: value for key, value in values.items() if value}


def _short(pins: object) -> str | None:
    """Pins as they are; None for a text longer than any of ours."""
    return pins if isinstance(pins, str) and len(pins) <= MOST_PINS_TEXT else None


def text_digest(text: object) -> str:
    """A text that is only compared, in few characters; empty for none."""
    return hashlib.sha256(str(text).encode()).hexdigest()[:16] if text else ""


def _cut(text: object) -> str:
    return str(text or "")[:MAX_TEXT]
