"""What the controller knows of the cluster, as frozen values, and how they are read from objects."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]

DRIVER = "compute-domain.nvidia.com"
DRIVER_NAMESPACE = "nvidia-dra-driver-gpu"
LABEL = "resource.nvidia.com/computeDomain"
FINALIZER = LABEL
TARGET_LABEL = "resource.nvidia.com/computeDomainTarget"
CLIQUE_LABEL = "nvidia.com/gpu.clique"
NVLINK_MARK = "sim.osmo.local/compute-domain"
"""Annotation or label of a node, ``true`` or ``false``; without it a clique label makes an NVLink node."""


DAEMON_MARK = "sim.osmo.local/compute-domain-daemon"
"""Annotation of a node, ``not-ready``: the daemon of a ComputeDomain there does not become ready."""


@dataclass(frozen=True, slots=True)
class Member:
    """One entry of ``status.nodes``; ``index`` is -1 for a node without clique."""

    name: str
    address: str
    clique: str
    index: int
    status: str = "Ready"


@dataclass(frozen=True, slots=True)
class Domain:
    namespace: str
    name: str
    uid: str
    template: str
    allocation_mode: str = "Single"
    num_nodes: int = 0
    finalizers: tuple[str, ...] = ()
    deleting: bool = False
    status: str | None = None
    members: tuple[Member, ...] = ()

    @property
    def finalized(self) -> bool:
        return FINALIZER in self.finalizers


@dataclass(frozen=True, slots=True)
class Owned:
    """A claim template or a DaemonSet, as far as the controller cares."""

    kind: str
    namespace: str
    name: str
    domain: str | None
    """Uid in the ComputeDomain label; None for an object that is not ours."""
    finalizers: tuple[str, ...] = ()
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class Machine:
    name: str
    uid: str
    address: str = ""
    clique: str = ""
    domain: str | None = None
    """Uid in the node's ComputeDomain label."""
    nvlink: bool = False
    daemon_ready: bool = True


@dataclass(frozen=True, slots=True)
class Use:
    """A claim of a domain that is allocated on a node and reserved for a pod."""

    domain: str
    node: str


@dataclass(frozen=True, slots=True)
class Slice:
    name: str
    node: str
    driver: str


@dataclass(frozen=True, slots=True)
class View:
    """Everything ``plan`` looks at."""

    domains: tuple[Domain, ...] = ()
    owned: tuple[Owned, ...] = ()
    machines: tuple[Machine, ...] = ()
    uses: tuple[Use, ...] = ()
    slices: tuple[Slice, ...] = ()


def domain(body: Json) -> Domain:
    meta, channel = body["metadata"], body["spec"]["channel"]
    status = body.get("status") or {}
    return Domain(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        template=channel["resourceClaimTemplate"]["name"],
        allocation_mode=channel.get("allocationMode", "Single"),
        num_nodes=body["spec"].get("numNodes", 0),
        finalizers=tuple(meta.get("finalizers") or ()),
        deleting=bool(meta.get("deletionTimestamp")),
        status=status.get("status"),
        members=tuple(
            Member(node["name"], node["ipAddress"], node["cliqueID"], node.get("index", -1), node["status"])
            for node in status.get("nodes") or ()
        ),
    )


def template(body: Json) -> Owned:
    return _owned(body, "ResourceClaimTemplate")


def daemon_set(body: Json) -> Owned:
    return _owned(body, "DaemonSet")


def _owned(body: Json, kind: str) -> Owned:
    meta = body["metadata"]
    return Owned(
        kind=kind,
        namespace=meta["namespace"],
        name=meta["name"],
        domain=(meta.get("labels") or {}).get(LABEL),
        finalizers=tuple(meta.get("finalizers") or ()),
        deleting=bool(meta.get("deletionTimestamp")),
    )


def machine(body: Json) -> Machine:
    meta = body["metadata"]
    labels = meta.get("labels") or {}
    mark = (meta.get("annotations") or {}).get(NVLINK_MARK, labels.get(NVLINK_MARK))
    addresses = {
        address["type"]: address["address"] for address in (body.get("status") or {}).get("addresses") or ()
    }
    return Machine(
        name=meta["name"],
        uid=meta["uid"],
        address=addresses.get("InternalIP", ""),
        clique=labels.get(CLIQUE_LABEL, ""),
        domain=labels.get(LABEL),
        nvlink=CLIQUE_LABEL in labels if mark is None else mark == "true",
        daemon_ready=(meta.get("annotations") or {}).get(DAEMON_MARK) != "not-ready",
    )


def use(body: Json) -> Use | None:
    """Read a claim: None unless it is one of a domain, allocated and in use."""
    status = body.get("status") or {}
    allocation = status.get("allocation")
    if not allocation or not status.get("reservedFor"):
        return None
    for config in (body["spec"].get("devices") or {}).get("config") or ():
        opaque = config.get("opaque") or {}
        if opaque.get("driver") == DRIVER:
            results = (allocation.get("devices") or {}).get("results") or ()
            pool = next((result["pool"] for result in results if result["driver"] == DRIVER), None)
            uid = (opaque.get("parameters") or {}).get("domainID")
            return Use(uid, pool) if uid and pool else None
    return None


def slice_of(body: Json) -> Slice:
    spec = body["spec"]
    return Slice(body["metadata"]["name"], spec.get("nodeName", ""), spec["driver"])
