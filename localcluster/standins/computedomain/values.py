"""What the controller knows of the cluster, as frozen values, and how they are read from objects."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

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
"""Annotation of a node. ``not-ready``: the daemon of a ComputeDomain there is not, or no longer, ready;
``absent``: there is none, or no longer one, so the node is not an entry of the status."""
RESTORE_MARK = "sim.osmo.local/restore-after"
"""Annotation of a ComputeDomain: seconds until a template that was removed by hand comes back."""
PREPARED_MARK = "sim.osmo.local/claims-prepared"
"""Annotation that a pod gets once its node has prepared its claims; kwok starts it only then."""


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
    restore_after: float | None = None
    """Its mark, or None for the controller's own setting."""

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
    daemon: Literal["ready", "not-ready", "absent"] = "ready"


@dataclass(frozen=True, slots=True)
class Use:
    """A claim; ``domain`` is None if it is none of a ComputeDomain, ``node`` while it is not in use."""

    domain: str | None
    node: str | None
    namespace: str = ""
    claim: str = ""


@dataclass(frozen=True, slots=True)
class Claimant:
    """A pod with claims that has a node and was not started yet."""

    namespace: str
    name: str
    uid: str
    node: str
    claims: tuple[str, ...] = ()
    """Names of its claims; their number is that of the pod's references only once all are made."""
    references: int = 0
    containers: tuple[tuple[str, str], ...] = ()
    """Name and image."""
    creating: bool = False
    """Whether its containers are reported as waiting."""


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
    claimants: tuple[Claimant, ...] = ()
    missing: Mapping[str, float] = field(default_factory=dict)
    """By uid of a domain, for how many seconds its template has been gone that was there before."""


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
        restore_after=float(mark) if (mark := (meta.get("annotations") or {}).get(RESTORE_MARK)) else None,
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
        daemon=_daemon((meta.get("annotations") or {}).get(DAEMON_MARK)),
    )


def _daemon(mark: str | None) -> Literal["ready", "not-ready", "absent"]:
    return "not-ready" if mark == "not-ready" else "absent" if mark == "absent" else "ready"


def use(body: Json) -> Use:
    """Read a claim."""
    meta, status = body["metadata"], body.get("status") or {}
    allocation = status.get("allocation") if status.get("reservedFor") else None
    results = ((allocation or {}).get("devices") or {}).get("results") or ()
    pool = next((result["pool"] for result in results if result["driver"] == DRIVER), None)
    for config in (body["spec"].get("devices") or {}).get("config") or ():
        opaque = config.get("opaque") or {}
        uid = (opaque.get("parameters") or {}).get("domainID")
        if opaque.get("driver") == DRIVER and uid:
            return Use(uid, pool, meta["namespace"], meta["name"])
    return Use(None, None, meta["namespace"], meta["name"])


def claimant(body: Json) -> Claimant | None:
    """Read a pod: None unless it has claims, is on a node, and its node has yet to prepare them."""
    meta, spec, status = body["metadata"], body["spec"], body.get("status") or {}
    references = spec.get("resourceClaims") or ()
    if not references or not spec.get("nodeName") or meta.get("deletionTimestamp"):
        return None
    if status.get("phase") != "Pending" or (meta.get("annotations") or {}).get(PREPARED_MARK):
        return None
    entries = status.get("resourceClaimStatuses") or ()
    claim_names = {entry["name"]: entry.get("resourceClaimName") for entry in entries}
    named = [
        reference.get("resourceClaimName") or claim_names.get(reference["name"]) for reference in references
    ]
    unneeded = sum(
        name in claim_names and claim_names[name] is None for name in (r["name"] for r in references)
    )
    return Claimant(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        node=spec["nodeName"],
        claims=tuple(name for name in named if name),
        references=len(references) - unneeded,
        containers=tuple((each["name"], each["image"]) for each in spec["containers"]),
        creating=bool(status.get("containerStatuses")),
    )


def slice_of(body: Json) -> Slice:
    spec = body["spec"]
    return Slice(body["metadata"]["name"], spec.get("nodeName", ""), spec["driver"])
