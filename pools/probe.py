"""Asking a cluster what it is: identity, versions, and whether a scheduler's API is really served.

The scheduler's version comes from the schemas the cluster serves, never from image tags, which anybody
may retag. Three answers stay apart: the cluster says what it serves, the cluster refuses to say (missing
rights), nobody answers. ``ask`` only reads, so it may run before anything is saved.
"""

from dataclasses import asdict, dataclass
from typing import Any

from cluster.errors import AlreadyExists, ClusterError, Forbidden, NotServed
from cluster.interface import Cluster
from cluster.kinds import COMPUTE_DOMAIN, NAMESPACE, Kind
from pools.conditions import Condition
from pools.kinds import as_kind
from scheduling.backends.base import ResourceKind, SchedulerBackend
from scheduling.errors import UnsupportedCapability

READ_SECONDS = 5.0  # a person waits for the answer, and small reads come in milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """What a probe asked, and about which scheduler; a row that has moved on ignores the answer."""

    kubeconfig: str
    context: str
    scheduler_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What was found.

    ``problem`` says why nobody answered, ``refusal`` why the scheduler cannot be used there, ``doubt`` why
    that could not be told; each is empty otherwise.
    """

    problem: str = ""
    reason: str = ""
    cluster_uid: str = ""
    kubernetes_version: str = ""
    scheduler_version: str = ""
    refusal: str = ""
    doubt: str = ""
    compute_domains: bool | None = None

    @property
    def reachable(self) -> bool:
        return not self.problem

    def card(self) -> dict[str, Any]:
        return asdict(self)


def ask(cluster: Cluster, scheduler: SchedulerBackend) -> Probe:
    """Ask; raises nothing about the cluster."""
    try:
        return _ask(cluster, scheduler)
    except ClusterError as error:
        return Probe(problem=str(error), reason=type(error).__name__)


def _ask(cluster: Cluster, scheduler: SchedulerBackend) -> Probe:
    kubernetes = cluster.server_version()
    uid = cluster.kube_system_uid()
    version = refusal = doubt = ""
    try:
        schema = _schema(cluster, scheduler.pod_group) if scheduler.pod_group else None
        found = scheduler.version_of(kubernetes=kubernetes, pod_group_schema=schema)
        version = str(found)
    except UnsupportedCapability as error:
        refusal = error.message
    except (Forbidden, ValueError) as error:
        doubt = f"What the scheduler can hold could not be read: {error}"
    return Probe(
        cluster_uid=uid,
        kubernetes_version=kubernetes,
        scheduler_version=version,
        refusal=refusal,
        doubt=doubt,
        compute_domains=_served(cluster, COMPUTE_DOMAIN),
    )


def _schema(cluster: Cluster, pod_group: ResourceKind) -> dict[str, Any] | None:
    """The schema of a scheduler's pod groups; empty for a built-in kind, None if it is not served."""
    kind = as_kind(pod_group)
    if not _served(cluster, kind):
        return None
    return cluster.read_crd_schema(kind) or {}


def _served(cluster: Cluster, kind: Kind) -> bool:
    return kind.plural in (cluster.discover(kind.group, kind.version) or ())


def ensure_namespace(cluster: Cluster, name: str) -> Condition:
    """Make the namespace if it is missing, and say how that went."""
    try:
        if cluster.get(NAMESPACE, name) is None:
            labels = {"app.kubernetes.io/managed-by": "osmo-topology"}
            cluster.create(NAMESPACE, {"metadata": {"name": name, "labels": labels}})
    except AlreadyExists:
        pass
    except (Forbidden, NotServed) as error:
        message = f'Whether namespace "{name}" is there could not be seen: {error}'
        return Condition(type="NamespaceReady", status="Unknown", reason="Forbidden", message=message)
    except ClusterError as error:
        message = f'Namespace "{name}" could not be made: {error}'
        return Condition(type="NamespaceReady", status="False", reason=type(error).__name__, message=message)
    return Condition(type="NamespaceReady", status="True", reason="Exists")


def conditions_of(probe: Probe) -> list[Condition]:
    """What a probe says, as conditions. One that could not be reached leaves the others as they were."""
    if not probe.reachable:
        return [Condition(type="Reachable", status="False", reason=probe.reason, message=probe.problem)]
    return [
        Condition(type="Reachable", status="True", reason="Answered"),
        _scheduler_condition(probe),
        Condition(
            type="ComputeDomainServed",
            status="True" if probe.compute_domains else "False",
            reason="Served" if probe.compute_domains else "NotServed",
            message="" if probe.compute_domains else "NVIDIA's DRA driver is not installed in the cluster.",
        ),
    ]


def _scheduler_condition(probe: Probe) -> Condition:
    if probe.refusal:
        return Condition(type="SchedulerServed", status="False", reason="Unsupported", message=probe.refusal)
    if probe.doubt:
        return Condition(type="SchedulerServed", status="Unknown", reason="Forbidden", message=probe.doubt)
    return Condition(type="SchedulerServed", status="True", reason="Supported")
