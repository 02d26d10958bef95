"""The kinds of object that the service itself reads and writes, as data.

A gateway method takes one of these instead of there being a method per kind. A scheduler's own kinds come
from its scheduler backend (``pools.clusters.kinds``). Versions are those served by Kubernetes 1.34 to 1.37
and NVIDIA's DRA driver.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Kind:
    """Where a kind is served. ``group`` is empty for the core group."""

    name: str
    group: str
    version: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def api_path(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def __str__(self) -> str:
        return f"{self.name}.{self.group}" if self.group else self.name


POD = Kind("Pod", "", "v1", "pods")
SERVICE = Kind("Service", "", "v1", "services")
SECRET = Kind("Secret", "", "v1", "secrets")
RESOURCE_QUOTA = Kind("ResourceQuota", "", "v1", "resourcequotas")
CONFIG_MAP = Kind("ConfigMap", "", "v1", "configmaps")
EVENT = Kind("Event", "", "v1", "events")
NODE = Kind("Node", "", "v1", "nodes", namespaced=False)
NAMESPACE = Kind("Namespace", "", "v1", "namespaces", namespaced=False)
PRIORITY_CLASS = Kind("PriorityClass", "scheduling.k8s.io", "v1", "priorityclasses", namespaced=False)

COMPUTE_DOMAIN = Kind("ComputeDomain", "resource.nvidia.com", "v1beta1", "computedomains")
RESOURCE_CLAIM = Kind("ResourceClaim", "resource.k8s.io", "v1", "resourceclaims")
RESOURCE_CLAIM_TEMPLATE = Kind("ResourceClaimTemplate", "resource.k8s.io", "v1", "resourceclaimtemplates")
RESOURCE_SLICE = Kind("ResourceSlice", "resource.k8s.io", "v1", "resourceslices", namespaced=False)
DEVICE_CLASS = Kind("DeviceClass", "resource.k8s.io", "v1", "deviceclasses", namespaced=False)

REVIEW_GROUPS = frozenset({"authentication.k8s.io", "authorization.k8s.io"})
"""Groups whose kinds are questions that are sent as creates."""

CRD = Kind(
    "CustomResourceDefinition", "apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False
)

ALL: tuple[Kind, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Kind))
_BY_TYPE = {(kind.api_version, kind.name): kind for kind in ALL}


def kind_of(obj: Mapping[str, Any]) -> Kind:
    """Find the kind of an object by its ``apiVersion`` and ``kind``. Raises ValueError for one not listed."""
    key = (str(obj.get("apiVersion")), str(obj.get("kind")))
    if key not in _BY_TYPE:
        handled = ", ".join(f"{api} {name}" for api, name in sorted(_BY_TYPE))
        raise ValueError(f"{key[0]} {key[1]} is not a kind we handle; these are: {handled}")
    return _BY_TYPE[key]
