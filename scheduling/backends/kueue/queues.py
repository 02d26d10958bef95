"""What of Kueue's queues a pool relies on: LocalQueue, ClusterQueue, ResourceFlavors and their Topologies.

A LocalQueue names a ClusterQueue, which names flavors; a flavor selects nodes by labels and names the
Topology of their levels. Whosever they are, they are only read here. Every pod set of ours has a topology
request, so Kueue gives it no flavor without a Topology.
Source: definitions of v0.19; the texts of queues' conditions are believed and were not seen running.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from decimal import Decimal
from typing import Any

from scheduling import names
from scheduling.backends.base import ResourceKind
from scheduling.kubernetes_syntax import GPU
from scheduling.queues.joined_queues import (
    FlavorUsage,
    JoinedQueue,
    NodeFlavor,
    QueuedGang,
    QueueFault,
    QueueUsage,
    Readings,
)
from scheduling.sentences import listing, plain_listing
from scheduling.topology.levels import HOSTNAME_LABEL, Level, Levels

_VERSION = "kueue.x-k8s.io/v1beta2"
LOCAL_QUEUE = ResourceKind(_VERSION, "LocalQueue", "localqueues")
CLUSTER_QUEUE = ResourceKind(_VERSION, "ClusterQueue", "clusterqueues", namespaced=False)
FLAVOR = ResourceKind(_VERSION, "ResourceFlavor", "resourceflavors", namespaced=False)
TOPOLOGY = ResourceKind(_VERSION, "Topology", "topologies", namespaced=False)

KueueQueue = Mapping[str, Any]
RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage", "pods", GPU})
"""Resources of tasks; templates may add others. A task that requests nothing is a pod, at least."""

OF_ANY_TASK = frozenset({"cpu", "memory", "ephemeral-storage"})
"""Those without which a queue is at fault. Kueue counts pods only where there is quota for some, and a pool
may have no GPUs: the reason of a task that waits names these."""

RUNS = "None"
"""The ``stopPolicy`` of a queue that is not stopped."""

_QUEUED_ANEW = ("PodsReadyTimeout", "AdmissionCheck")
"""Reasons of an eviction from which a Workload may be queued by the time of the eviction."""


def read(
    resource: ResourceKind, obj: Mapping[str, Any], *, quantity: Callable[[str], Decimal]
) -> dict[str, Any]:
    """A queue or flavor as JSON: ``settings``, which conditions follow from, and ``usage`` of a queue.

    ``owner`` of a LocalQueue is the installation of this service that made it, empty for none;
    ``tolerations`` of a flavor, where it has some, are those that Kueue gives to pods of others, and its
    ``taints`` those that pods have to tolerate with them.
    """
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if resource == FLAVOR:
        labels = {str(key): str(value) for key, value in (spec.get("nodeLabels") or {}).items()}
        written = {"tolerations": spec.get("tolerations"), "taints": spec.get("nodeTaints")}
        more = {name: entries for name, entries in written.items() if entries}
        return {
            "settings": {"labels": labels, "topology": str(spec.get("topologyName") or "")},
            **more,
        }
    settings: dict[str, Any] = {"stop": str(spec.get("stopPolicy") or RUNS), "inactive": _inactive(status)}
    if resource == LOCAL_QUEUE:
        labels = (obj.get("metadata") or {}).get("labels") or {}
        return {
            "settings": settings | {"cluster_queue": str(spec.get("clusterQueue") or "")},
            "owner": str(labels.get(names.INSTALLATION_LABEL) or ""),
        }
    flavors = [flavor for group in spec.get("resourceGroups") or () for flavor in group.get("flavors") or ()]
    settings["flavors"] = list(dict.fromkeys(str(flavor["name"]) for flavor in flavors))
    settings["resources"] = {
        str(flavor["name"]): sorted(str(entry["name"]) for entry in flavor.get("resources") or ())
        for flavor in flavors
    }
    settings["selects_none"] = spec.get("namespaceSelector") is None
    settings["strategy"] = str(spec.get("queueingStrategy") or "BestEffortFIFO")
    in_cohort = bool(spec.get("cohortName"))
    return {"settings": settings, "usage": _usage(flavors, status, quantity, in_cohort=in_cohort)}


def _inactive(status: Mapping[str, Any]) -> str:
    """The message of its condition while it is not active; empty while it is, or says nothing."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Active" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason") or "no reason given")
    return ""


def _usage(
    flavors: list[Mapping[str, Any]],
    status: Mapping[str, Any],
    quantity: Callable[[str], Decimal],
    *,
    in_cohort: bool,
) -> dict[str, Any]:
    """How many Workloads wait, and by flavor and resource what they may use and have reserved.

    An amount is a number of cores, bytes or devices. ``most`` is what it may use with what it borrows from
    its cohort, None for as much as that has.
    """
    reserved = {
        (entry.get("name"), resource.get("name")): resource
        for entry in status.get("flavorsReservation") or ()
        for resource in entry.get("resources") or ()
    }

    def amount(value: object) -> float:
        return float(quantity(str(value or "0")))

    lines = []
    for flavor in flavors:
        for resource in flavor.get("resources") or ():
            entry = reserved.get((flavor["name"], resource["name"])) or {}
            nominal, borrowing = amount(resource.get("nominalQuota")), resource.get("borrowingLimit")
            borrows_freely = in_cohort and borrowing is None
            lines.append(
                {
                    "flavor": str(flavor["name"]),
                    "resource": str(resource["name"]),
                    "quota": nominal,
                    "most": None if borrows_freely else nominal + amount(borrowing),
                    "used": amount(entry.get("total")),
                    "borrowed": amount(entry.get("borrowed")),
                }
            )
    return {"waiting": int(status.get("pendingWorkloads") or 0), "resources": lines}


def joined(namespace: str, name: str, *, selector: Mapping[str, str], objects: Readings) -> JoinedQueue:
    """The LocalQueue of this name, for pods with this node selector."""
    queue = JoinedQueue(name=name)
    local = objects.get((LOCAL_QUEUE.crd, f"{namespace}/{name}"))
    if local is None:
        message = f'There is no LocalQueue "{name}" in namespace {namespace}.'
        return replace(queue, faults=(QueueFault("LocalQueueNotFound", message),))
    above = str(local["settings"]["cluster_queue"])
    cluster_queue = objects.get((CLUSTER_QUEUE.crd, above))
    stopped = tuple(_stopped(f'LocalQueue "{name}"', "LocalQueue", local))
    if cluster_queue is None:
        message = f'There is no ClusterQueue "{above}", which LocalQueue "{name}" names.'
        return replace(queue, faults=(*stopped, QueueFault("ClusterQueueNotFound", message)))
    named = [str(flavor) for flavor in cluster_queue["settings"]["flavors"]]
    flavors, unusable = _flavors(above, named, selector, objects)
    words = f'ClusterQueue "{above}"'
    unadmitting = (
        *stopped,
        *_stopped(words, "ClusterQueue", cluster_queue),
        *_selecting(words, cluster_queue),
    )
    inactive = () if unadmitting or unusable else tuple(_inactive_fault(words, cluster_queue))
    usage = QueueUsage(
        above,
        words,
        cluster_queue["usage"]["waiting"],
        tuple(FlavorUsage(**line) for line in cluster_queue["usage"]["resources"]),
        frozenset(
            entry
            for (kind, entry), reading in objects.items()
            if kind == LOCAL_QUEUE.crd and reading["settings"]["cluster_queue"] == above
        ),
        cluster_queue["settings"]["strategy"] == "StrictFIFO",
    )
    partial = (
        *_uncovered(words, cluster_queue),
        *_apart(words, [flavor.name for flavor in flavors], cluster_queue),
    )
    faults = (*unadmitting, *unusable, *inactive)
    others = tuple(_others(objects, {flavor.name for flavor in flavors}))
    return replace(queue, flavors=flavors, faults=faults, partial_faults=partial, others=others, usage=usage)


def _others(objects: Readings, usable: AbstractSet[str]) -> Iterator[NodeFlavor]:
    for (kind, name), reading in objects.items():
        settings = reading["settings"]
        if kind == FLAVOR.crd and name not in usable and settings["topology"]:
            yield NodeFlavor(name, settings["labels"], settings["topology"])


def queued(workload: Mapping[str, Any], *, created: str) -> QueuedGang | None:
    """A Workload in Kueue's order; None if it does not wait.

    Kueue counts from the creation, after a preemption too. After the other evictions below it may count from
    the eviction, by its configuration (``waitForPodsReady.requeuingStrategy``), which nobody reads here.
    Source: ``GetQueueOrderTimestamp`` of Kueue's ``pkg/workload``; not tried on a running Kueue.
    """
    spec, status = workload.get("spec") or {}, workload.get("status") or {}
    conditions = {str(c.get("type")): c for c in status.get("conditions") or ()}
    met = {kind for kind, condition in conditions.items() if condition.get("status") == "True"}
    if spec.get("active") is False or met & {"QuotaReserved", "Finished"}:
        return None
    is_later = "Evicted" in met and conditions["Evicted"].get("reason") in _QUEUED_ANEW
    return QueuedGang(priority=int(spec.get("priority") or 0), since="" if is_later else created)


def _stopped(words: str, kind: str, reading: KueueQueue) -> Iterator[QueueFault]:
    policy = reading["settings"]["stop"]
    if policy != RUNS:
        yield QueueFault(f"{kind}Stopped", f"{words} is stopped (stopPolicy {policy}) and admits nothing.")


def _selecting(words: str, reading: KueueQueue) -> Iterator[QueueFault]:
    """Without a selector a ClusterQueue is for no namespace (its definition); an empty one is for all."""
    if reading["settings"].get("selects_none"):
        message = f"{words} has no namespaceSelector, so it admits nothing of any namespace."
        yield QueueFault("NoNamespaceSelected", message)


def _inactive_fault(words: str, reading: KueueQueue) -> Iterator[QueueFault]:
    if message := reading["settings"]["inactive"]:
        yield QueueFault("ClusterQueueInactive", f"{words} is inactive: {message}")


def _flavors(
    queue: str, named: list[str], selector: Mapping[str, str], objects: Readings
) -> tuple[tuple[NodeFlavor, ...], tuple[QueueFault, ...]]:
    """The flavors with a Topology that pods of this selector may get, and what is wrong with the others."""
    readings = {name: objects.get((FLAVOR.crd, name)) for name in named}
    if missing := [name for name, reading in readings.items() if reading is None]:
        message = f'ClusterQueue "{queue}" names ResourceFlavor {listing(missing)}, which does not exist.'
        return (), (QueueFault("FlavorNotFound", message),)
    flavors = [
        NodeFlavor(
            name,
            reading["settings"]["labels"],
            reading["settings"]["topology"],
            has_taints=bool(reading.get("taints")),
        )
        for name, reading in readings.items()
        if reading is not None
    ]
    placing = [flavor for flavor in flavors if flavor.topology]
    if not placing:
        message = (
            f'No flavor of ClusterQueue "{queue}" has a topologyName, so Kueue would name no nodes: '
            f"{listing(named) or 'it has none'}."
        )
        return (), (QueueFault("NoTopology", message),)
    usable = tuple(flavor for flavor in placing if not _contradiction(flavor, selector))
    if not usable:
        message = "; ".join(_contradiction(flavor, selector) for flavor in placing)
        return (), (QueueFault("FlavorsExcludePool", f"No flavor fits the pool's node selector: {message}."),)
    return usable, ()


def _uncovered(words: str, reading: KueueQueue) -> Iterator[QueueFault]:
    """Resources that tasks of any pool may request, and for which the queue has no quota in any flavor."""
    by_flavor = reading["settings"].get("resources", {})
    covered = {resource for resources in by_flavor.values() for resource in resources}
    if by_flavor and (missing := sorted(OF_ANY_TASK - covered)):
        message = (
            f"{words} has no quota for {_list(missing)}: unless Kueue's configuration leaves that out, it "
            "admits no task that requests it."
        )
        yield QueueFault("ResourcesWithoutQuota", message)


def _apart(words: str, usable: list[str], reading: KueueQueue) -> Iterator[QueueFault]:
    """Resources that tasks request and that no flavor of a pool's nodes has together.

    Kueue takes the flavor of each resource group, and refuses a pod set that would get more than one
    (``onlyFlavor`` in ``tas_flavorassigner.go``, v0.15 to v0.19; not tried on a running Kueue).
    """
    by_flavor = {
        name: [resource for resource in resources if resource in RESOURCES]
        for name, resources in reading["settings"].get("resources", {}).items()
    }
    counted = {resource for resources in by_flavor.values() for resource in resources}
    if not usable or any(counted <= set(by_flavor.get(name, ())) for name in usable):
        return
    parts = [f'flavor "{name}" has {_list(resources)}' for name, resources in by_flavor.items() if resources]
    message = (
        f"{words} has no flavor with a topologyName for all of {_list(sorted(counted))}: {'; '.join(parts)}. "
        "Kueue admits no task whose requests are of several flavors."
    )
    yield QueueFault("ResourcesInSeveralFlavors", message)


def _list(resources: Sequence[str]) -> str:
    return plain_listing(resources, limit=len(RESOURCES))


def _contradiction(flavor: NodeFlavor, selector: Mapping[str, str]) -> str:
    for label, value in flavor.node_labels.items():
        if selector.get(label, value) != value:
            return f'ResourceFlavor "{flavor.name}" has {label}={value} where the pool has {selector[label]}'
    return ""


def levels_needed(levels: Levels) -> Levels:
    """Those of the pool, and the host: without it Kueue names no nodes."""
    if levels and levels[-1].label == HOSTNAME_LABEL:
        return levels
    return (*levels, Level("host", HOSTNAME_LABEL))


def levels_in(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """The node labels that a Topology lists, broadest first."""
    return tuple(str(level["nodeLabel"]) for level in (manifest.get("spec") or {}).get("levels") or ())
