"""KAI's version, inferred from the schema of the pod groups that its cluster serves."""

from collections.abc import Mapping
from typing import Any

from scheduling.backends.schema_fields import at
from scheduling.capabilities import SchedulerVersion
from scheduling.errors import UnsupportedCapability

OLDEST = SchedulerVersion(0, 13)
MIN_SUB_GROUP = SchedulerVersion(0, 15)
OPTIONAL_LEAVES = MIN_SUB_GROUP
STALENESS_GRACE = SchedulerVersion(0, 17)
PREEMPTION_DELAY = STALENESS_GRACE
"""``preemptionDelay`` came into the schema with ``stalenessGracePeriod``."""


def version_from_schema(document: Mapping[str, Any]) -> SchedulerVersion:
    """Infer KAI's version from the PodGroup schema its cluster serves.

    Accepts a CustomResourceDefinition, an OpenAPI v3 document (``/openapi/v3/apis/scheduling.run.ai/
    v2alpha2``) or the bare schema. ``subGroups[].parent`` came with 0.13, ``minSubGroup`` with 0.15,
    ``stalenessGracePeriod`` with 0.17; the answer is the oldest version with that schema. Raises
    UnsupportedCapability below 0.13.
    """
    spec = at(_pod_group_schema(document), "properties", "spec", "properties")
    subgroup = at(spec, "subGroups", "items", "properties")
    if "parent" not in subgroup:
        raise UnsupportedCapability(
            f"The cluster's PodGroup (scheduling.run.ai/v2alpha2) has no subGroups[].parent: KAI "
            f"{OLDEST} or later is needed."
        )
    if "stalenessGracePeriod" in spec:
        return STALENESS_GRACE
    return MIN_SUB_GROUP if "minSubGroup" in spec or "minSubGroup" in subgroup else OLDEST


def _pod_group_schema(document: Mapping[str, Any]) -> Mapping[str, Any]:
    if versions := at(document, "spec").get("versions"):
        served = [v for v in versions if v.get("served", True) and v.get("name") == "v2alpha2"]
        return at(served[0], "schema", "openAPIV3Schema") if served else {}
    for schema in at(document, "components", "schemas").values():
        kinds = schema.get("x-kubernetes-group-version-kind", ())
        if any(k.get("kind") == "PodGroup" and k.get("version") == "v2alpha2" for k in kinds):
            return dict(schema)
    return document
