"""Probing a cluster: its identity, its versions, and whether it would keep what we write.

The scheduler's version comes from the schemas that the cluster serves, never from image tags, which anybody
may change. Three results stay apart: the cluster says what it serves, the cluster refuses to say (missing
rights), the cluster does not answer. ``probe_cluster`` reads and sends one pod group as a dry run, so it may
run before anything is saved. Its findings about each feature (``scheduling.conformance``) are the backend's
conformance card.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self
from uuid import UUID

from cluster.errors import (
    AlreadyExists,
    ClusterError,
    Invalid,
    NotServed,
    ObjectNotFound,
    RequestForbidden,
    ServerFault,
    WritesUnconfirmed,
)
from cluster.interface import ClusterApi, serves
from cluster.kinds import COMPUTE_DOMAIN, NAMESPACE, Kind
from pools.clusters.kinds import as_kind
from pools.conditions import Condition
from pools.models import Backend
from scheduling import conformance
from scheduling.backends.base import Purpose, ResourceKind
from scheduling.backends.facets import SchedulerBackend
from scheduling.capabilities import SchedulerVersion
from scheduling.conformance import FeatureFinding, Schema
from scheduling.errors import UnsupportedCapability

PROBE_SECONDS = 60.0  # for all calls of one probe
READ_SECONDS = 5.0  # a person waits for the answer, and small reads come in milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The address and scheduler that a probe is about. The result is ignored once the row has another."""

    kubeconfig: str
    context: str
    namespace: str
    scheduler_type: str

    @classmethod
    def of(cls, backend: Backend) -> Self:
        return cls(
            kubeconfig=backend.kubeconfig,
            context=backend.context,
            namespace=backend.namespace,
            scheduler_type=backend.scheduler_type,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The result of a probe."""

    problem: str = ""
    """Why the cluster did not answer; empty: it did."""

    reason: str = ""
    cluster_uid: str = ""
    kubernetes_version: str = ""
    scheduler_version: str = ""

    refusal: str = ""
    """Why the scheduler cannot be used there; empty otherwise."""

    doubt: str = ""
    """Why that could not be found out; empty otherwise."""

    compute_domains: bool | None = None

    quotas: tuple[dict[str, Any], ...] | None = None
    """The quotas on pods of the backend's namespace; None: they were not read. Workers alone read them."""

    findings: tuple[FeatureFinding, ...] = ()

    @property
    def reachable(self) -> bool:
        return not self.problem

    def card(self) -> dict[str, Any]:
        return asdict(self)


def probe_cluster(
    cluster: ClusterApi, scheduler: SchedulerBackend, *, namespace: str, installation: UUID
) -> Probe:
    """Probe a cluster; raises nothing about it. ``namespace`` is the backend's, for the dry run."""
    try:
        return _probe(cluster, scheduler, namespace, installation)
    except ClusterError as error:
        return Probe(problem=str(error), reason=error.code)


def _probe(cluster: ClusterApi, scheduler: SchedulerBackend, namespace: str, installation: UUID) -> Probe:
    kubernetes = cluster.server_version()
    uid = cluster.kube_system_uid()
    version = refusal = doubt = ""
    try:
        schema = _schema(cluster, scheduler.pod_group) if scheduler.pod_group else None
        version_found = scheduler.rendering.version_of(kubernetes=kubernetes, pod_group_schema=schema)
        version = str(version_found)
    except UnsupportedCapability as error:
        refusal = error.message
    except (RequestForbidden, ValueError) as error:
        doubt = f"What the scheduler can hold could not be read: {error}"
    findings = [*_schema_findings(cluster, scheduler)]
    if version:
        findings += _dry_run_findings(cluster, scheduler, version, namespace, installation)
    return Probe(
        cluster_uid=uid,
        kubernetes_version=kubernetes,
        scheduler_version=version,
        refusal=refusal,
        doubt=doubt,
        compute_domains=serves(cluster, COMPUTE_DOMAIN),
        findings=tuple(findings),
    )


def _schema_findings(cluster: ClusterApi, scheduler: SchedulerBackend) -> Iterator[FeatureFinding]:
    """What the served schemas say about each feature; a schema is read once, and only for its fields."""
    features = (*scheduler.features, *conformance.NVLINK)
    with_fields = {feature.resource for feature in features if feature.path}
    schemas: dict[ResourceKind, Schema | None] = {}
    for resource in dict.fromkeys(feature.resource for feature in features):
        kind = as_kind(resource)
        if serves(cluster, kind):
            schemas[resource] = _schema_of(cluster, kind) if resource in with_fields else None
    return conformance.check_features(features, schemas)


def _schema_of(cluster: ClusterApi, kind: Kind) -> Schema | None:
    try:
        return cluster.read_crd_schema(kind)
    except RequestForbidden:
        return None


def _dry_run_findings(
    cluster: ClusterApi, scheduler: SchedulerBackend, version: str, namespace: str, installation: UUID
) -> Iterator[FeatureFinding]:
    """The result of creating a pod group as a dry run: feature gates and webhooks show in no schema."""
    sent = conformance.trial(
        scheduler,
        version=SchedulerVersion.parse(version),
        namespace=namespace,
        installation=installation,
    )
    if sent is None or scheduler.pod_group is None:
        return
    try:
        yield conformance.tried(sent, cluster.create(as_kind(scheduler.pod_group), sent, dry_run=True))
    except Invalid as error:
        yield conformance.FeatureFinding(
            conformance.as_written(sent), Purpose.SCHEDULER, found=False, how=str(error)
        )
    except (RequestForbidden, ObjectNotFound, ServerFault) as error:
        # no right to try, no namespace yet, or a webhook that does not answer: reads were answered
        how = f"it could not be tried: {error}"
        yield conformance.FeatureFinding(conformance.as_written(sent), Purpose.SCHEDULER, found=None, how=how)


def _schema(cluster: ClusterApi, pod_group: ResourceKind) -> dict[str, Any] | None:
    """The schema of a scheduler's pod groups; empty for a built-in kind, None if it is not served."""
    kind = as_kind(pod_group)
    if not serves(cluster, kind):
        return None
    return cluster.read_crd_schema(kind) or {}


def ensure_namespace(cluster: ClusterApi, name: str) -> Condition:
    """Create the namespace if it is missing; returns the condition about it."""
    try:
        if cluster.get(NAMESPACE, name) is None:
            labels = {"app.kubernetes.io/managed-by": "osmo-topology"}
            cluster.create(NAMESPACE, {"metadata": {"name": name, "labels": labels}})
    except AlreadyExists:
        pass
    except (RequestForbidden, NotServed) as error:
        message = f'Whether namespace "{name}" is there is unknown: {error}'
        return Condition(type="NamespaceReady", status="Unknown", reason="Forbidden", message=message)
    except WritesUnconfirmed as error:  # nothing was tried, so nobody knows whether it can be created
        message = f'Namespace "{name}" is missing and was not created: {error}'
        return Condition(type="NamespaceReady", status="Unknown", reason=error.code, message=message)
    except ClusterError as error:
        message = f'Namespace "{name}" could not be created: {error}'
        return Condition(type="NamespaceReady", status="False", reason=error.code, message=message)
    return Condition(type="NamespaceReady", status="True", reason="Exists")


def conditions_of(probe: Probe) -> list[Condition]:
    """The conditions that a probe gives. A probe without an answer leaves the others as they were."""
    if not probe.reachable:
        return [Condition(type="Reachable", status="False", reason=probe.reason, message=probe.problem)]
    return [
        Condition(type="Reachable", status="True", reason="Answered"),
        _scheduler_condition(probe),
        _conformance_condition(probe),
        Condition(
            type="ComputeDomainServed",
            status="True" if probe.compute_domains else "False",
            reason="Served" if probe.compute_domains else "NotServed",
            message="" if probe.compute_domains else "NVIDIA's DRA driver is not installed in the cluster.",
        ),
    ]


def missing(findings: Sequence[Mapping[str, Any]], purpose: Purpose) -> list[str]:
    """Why features for one purpose are missing, by a card; a kind that is not served counts once."""
    explanations = (
        finding["how"] for finding in findings if finding["purpose"] == purpose and finding["found"] is False
    )
    return list(dict.fromkeys(explanations))


def lacks(findings: Sequence[Mapping[str, Any]], *, nvlink: bool, keys: bool) -> dict[str, list[str]]:
    """The explanations of a card for what a pool lacks, by the pool's field that needs it."""
    needs = {"nvlink": (nvlink, Purpose.NVLINK), "topology_keys": (keys, Purpose.TOPOLOGY)}
    return {
        field: explanations
        for field, (is_needed, purpose) in needs.items()
        if is_needed and (explanations := missing(findings, purpose))
    }


def _conformance_condition(probe: Probe) -> Condition:
    """Whether everything needed was found; NVLink has a condition of its own."""
    needed = [
        finding for finding in probe.findings if finding.purpose in (Purpose.SCHEDULER, Purpose.TOPOLOGY)
    ]
    missing_features = dict.fromkeys(finding.how for finding in needed if finding.found is False)
    unknown_features = [f"{finding.name}: {finding.how}" for finding in needed if finding.found is None]
    if missing_features:
        return Condition(
            type="Conforms", status="False", reason="Missing", message="; ".join(missing_features)
        )
    if unknown_features:
        return Condition(
            type="Conforms", status="Unknown", reason="NotTold", message="; ".join(unknown_features)
        )
    return Condition(type="Conforms", status="True", reason="AllFound")


def _scheduler_condition(probe: Probe) -> Condition:
    if probe.refusal:
        return Condition(type="SchedulerServed", status="False", reason="Unsupported", message=probe.refusal)
    if probe.doubt:
        return Condition(type="SchedulerServed", status="Unknown", reason="Forbidden", message=probe.doubt)
    return Condition(type="SchedulerServed", status="True", reason="Supported")
