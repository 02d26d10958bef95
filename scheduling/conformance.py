"""Whether a cluster keeps every field that the service writes: features as data, and their findings.

An API server drops fields that its schema does not know, and one with a feature gate off drops that feature's
fields, both silently: a constraint would be lost and the gang placed anywhere. So a probe compares the served
schemas with the fields that are written. Schemas do not show gates and webhooks, so the probe also sends one
pod group as a dry run and compares the reply. Pure: the caller reads the schemas from the cluster.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from scheduling.backends.base import Feature, GangRequest, Manifest, Purpose, ResourceKind
from scheduling.backends.facets import SchedulerBackend
from scheduling.capabilities import Capability, SchedulerVersion
from scheduling.terms import SchedulingTerms
from scheduling.topology.levels import Level
from scheduling.topology.requirements import Gang, GangTask, Requirement


@dataclass(frozen=True, slots=True)
class FeatureFinding:
    """Whether a feature is served: True, False, or None if unknown; ``how`` explains."""

    name: str
    purpose: str
    found: bool | None
    how: str


Schema = Mapping[str, Any]


def check_features(
    features: Iterable[Feature], schemas: Mapping[ResourceKind, Schema | None]
) -> Iterator[FeatureFinding]:
    """Look up each feature in the schemas of the served kinds.

    A kind that is not served is absent; None means that its schema could not be read.
    """
    for feature in features:
        if feature.resource not in schemas:
            how = f"the cluster does not serve {feature.resource.kind} ({feature.resource.api_version})"
            yield FeatureFinding(feature.name, feature.purpose, found=False, how=how)
            continue
        schema = schemas[feature.resource]
        if not feature.path:
            yield FeatureFinding(feature.name, feature.purpose, found=True, how="served")
        elif not schema:
            yield FeatureFinding(
                feature.name, feature.purpose, found=None, how="its schema could not be read"
            )
        else:
            is_served = _has(schema, feature.path)
            how = "in the served schema" if is_served else f"the served schema has no {feature.name}"
            yield FeatureFinding(feature.name, feature.purpose, found=is_served, how=how)


def _has(schema: Schema, path: tuple[str, ...]) -> bool:
    node: Any = schema
    for step in path:
        while isinstance(node, Mapping) and "items" in node and "properties" not in node:
            node = node["items"]
        node = (node.get("properties") or {}).get(step) if isinstance(node, Mapping) else None
    return node is not None


COMPUTE_DOMAIN = ResourceKind("resource.nvidia.com/v1beta1", "ComputeDomain", "computedomains")

NVLINK = (
    Feature(COMPUTE_DOMAIN, (), Purpose.NVLINK),
    Feature(COMPUTE_DOMAIN, ("spec", "numNodes"), Purpose.NVLINK),
    Feature(COMPUTE_DOMAIN, ("spec", "channel", "allocationMode"), Purpose.NVLINK),
    Feature(COMPUTE_DOMAIN, ("spec", "channel", "resourceClaimTemplate", "name"), Purpose.NVLINK),
)
"""What NVIDIA's DRA driver brings and a ComputeDomain of ours says."""

_TRIAL_LEVELS = (Level("zone", "topology.kubernetes.io/zone"), Level("host", "kubernetes.io/hostname"))


def trial(
    scheduler: SchedulerBackend, *, version: SchedulerVersion, namespace: str, installation: UUID
) -> Manifest | None:
    """A pod group that uses all that the scheduler can hold, for a dry run; None without a kind."""
    capabilities = scheduler.rendering.capabilities(version)
    required = Capability.TOPOLOGY_REQUIRED in capabilities
    sets = 2 if Capability.GANG_MULTI_SET in capabilities and required else 1
    tasks = tuple(
        GangTask(
            f"task-{place}", requirements=(Requirement("host", f"set-{place % sets}"),) if required else ()
        )
        for place in range(2 * sets)
    )
    rendered = scheduler.rendering.render(
        GangRequest(
            group=installation,
            gang=Gang("trial", tasks),
            terms=SchedulingTerms(
                installation=installation,
                pool="trial",
                pool_revision=0,
                backend="trial",
                namespace=namespace,
                scheduler_type=scheduler.name,
                scheduler_name=scheduler.scheduler_name,
                scheduler_version=str(version),
                queue="trial",
                levels=_TRIAL_LEVELS,
            ),
            priority_class="",
        )
    )
    return rendered.pod_groups[0] if rendered.pod_groups else None


def lost(sent: Any, returned: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """The fields that the reply lacks or changed, as dotted paths."""
    if isinstance(sent, Mapping):
        for key, value in sent.items():
            inside = returned.get(key) if isinstance(returned, Mapping) else None
            yield from lost(value, inside, (*path, str(key)))
    elif isinstance(sent, list):
        same = isinstance(returned, list) and len(returned) == len(sent)
        for place, value in enumerate(sent):
            yield from lost(value, returned[place] if same else None, (*path, str(place)))
    elif sent != returned:
        yield ".".join(path)


def tried(sent: Manifest, returned: Manifest) -> FeatureFinding:
    """The finding about a dry run of ``sent``."""
    missing = list(lost(sent["spec"], returned.get("spec"), ("spec",)))
    kind = sent["kind"]
    how = f"a dry run of a {kind} lost {', '.join(missing[:5])}" if missing else "a dry run kept all of it"
    return FeatureFinding(as_written(sent), Purpose.SCHEDULER, found=not missing, how=how)


def as_written(sent: Manifest) -> str:
    """The name of the finding about a whole object."""
    return f"{sent['kind']} as it is written"
