"""Kueue's version, inferred from the schema of the Workloads that its cluster serves.

A schema tells 0.15 (and 0.16, which differs in nothing that is used here), 0.17, 0.18, 0.18.5 and 0.19 apart.
It does not tell 0.19.0 from 0.19.1, whose definitions are equal: 0.19 counts as 0.19.1, so a gang may wait
there for the end of a pod that is not Kueue's, as without the service.
Source: ``config/components/crd/bases`` and ``pkg/features`` of every tag from v0.15.0 to v0.19.2; only 0.17.0
was run with the service.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduling.backends.schema_fields import at
from scheduling.capabilities import SchedulerVersion
from scheduling.errors import UnsupportedCapability


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueRelease:
    """What Kueue does from one version on."""

    version: SchedulerVersion

    pod_sets: int
    """Of one Workload, at most."""

    slice_layers: int = 1
    """How many layers of slices a pod set may have by its definition; the service uses one."""

    sees_foreign_ends: bool = False
    """Whether a waiting Workload is considered again when a pod that is not Kueue's ends."""

    counts_across_flavors: bool = False
    """Whether use counts for the node, and not for each flavor by itself, unless its gate
    ``TASHandleOverlappingFlavors`` is off."""


RELEASES = (
    KueueRelease(version=SchedulerVersion(0, 15), pod_sets=8),
    KueueRelease(version=SchedulerVersion(0, 17), pod_sets=8, slice_layers=3),
    KueueRelease(version=SchedulerVersion(0, 18), pod_sets=10, slice_layers=3, counts_across_flavors=True),
    KueueRelease(
        version=SchedulerVersion(0, 18, 5),
        pod_sets=10,
        slice_layers=3,
        sees_foreign_ends=True,
        counts_across_flavors=True,
    ),
    KueueRelease(
        version=SchedulerVersion(0, 19),
        pod_sets=18,
        slice_layers=3,
        sees_foreign_ends=True,
        counts_across_flavors=True,
    ),
)
"""Those that a schema tells apart, oldest first."""

OLDEST = RELEASES[0].version
"""The first that serves ``kueue.x-k8s.io/v1beta2``, whose assignments are read here."""

_QUEUE_NAME_RULE = "has(oldSelf.spec.queueName) == has(self.spec.queueName)"
"""In a rule of the Workload from 0.18.5 on."""


def release_at(version: SchedulerVersion | None) -> KueueRelease:
    """The facts of a version; of one that is not known or older than all, those of the oldest."""
    earlier = [release for release in RELEASES if version is not None and release.version <= version]
    return earlier[-1] if earlier else RELEASES[0]


def too_many(pod_sets: int, most: int, *, version: SchedulerVersion | None) -> str:
    """Why so many pod sets are refused where a Workload has at most ``most``, and what would do."""
    kueue = f"Kueue {version}" if version else f"Kueue (of unknown version, so as of {OLDEST})"
    later = [release for release in RELEASES if release.pod_sets >= pod_sets]
    remedy = f"; Kueue {later[0].version} or later takes it" if later else ""
    return (
        f"The task group needs {pod_sets} pod sets, one for each co-location set and each kind of free task, "
        f"and a Workload of {kueue} has at most {most}{remedy}. Equal sets inside one broader "
        "domain count once: name a broader key for them, or use fewer sets."
    )


def version_from_schema(schema: Mapping[str, Any]) -> SchedulerVersion:
    """The oldest version whose Workload (``kueue.x-k8s.io/v1beta2``) has this schema.

    Raises UnsupportedCapability for one that holds fewer pod sets than that of any version.
    """
    pod_sets = at(schema, "properties", "spec", "properties", "podSets")
    most = pod_sets.get("maxItems")
    if not isinstance(most, int) or most < RELEASES[0].pod_sets:
        raise UnsupportedCapability(
            f"The cluster's Workload (kueue.x-k8s.io/v1beta2) has no bound on spec.podSets of "
            f"{RELEASES[0].pod_sets} or more: Kueue {OLDEST} or later is needed."
        )
    request = at(pod_sets, "items", "properties", "topologyRequest", "properties")
    has_layers = "podsetSliceRequiredTopologyConstraints" in request
    fitting = [
        release
        for release in RELEASES
        if release.pod_sets <= most
        and (has_layers or release.slice_layers == 1)
        and (release.version != _QUEUE_NAME_RULE_SINCE or _has_queue_name_rule(schema))
    ]
    return fitting[-1].version


_QUEUE_NAME_RULE_SINCE = SchedulerVersion(0, 18, 5)


def _has_queue_name_rule(schema: Mapping[str, Any]) -> bool:
    rules = schema.get("x-kubernetes-validations") or ()
    return any(_QUEUE_NAME_RULE in " ".join(str(rule.get("rule")).split()) for rule in rules)
