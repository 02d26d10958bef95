"""What a cluster serves of the groups of Kubernetes' own scheduler.

A built-in kind has no definition that could be read, so a feature is a kind that is served.
"""

from scheduling.backends.base import Feature, Purpose, ResourceKind

API = "scheduling.k8s.io/v1beta1"
COMPOSITE_API = "scheduling.k8s.io/v1alpha3"

POD_GROUP = ResourceKind(API, "PodGroup", "podgroups")
WORKLOAD = ResourceKind(API, "Workload", "workloads")
COMPOSITE = ResourceKind(COMPOSITE_API, "CompositePodGroup", "compositepodgroups")

COMPOSITE_GATE = "CompositePodGroup"
"""The scheduler's feature gate without which it ignores composites in silence (seen on 1.37.2).

The API server has a gate of the same name; that it serves composites says nothing about the scheduler.
"""

FEATURES = (
    Feature(POD_GROUP, (), Purpose.SCHEDULER),
    Feature(WORKLOAD, (), Purpose.NOTHING),
    Feature(COMPOSITE, (), Purpose.NOTHING),
)

SWITCHED_ON = (
    "The API server and the scheduler need the feature gates GenericWorkload and "
    "TopologyAwareWorkloadScheduling, and the API server --runtime-config=scheduling.k8s.io/v1beta1=true."
)
"""How pod groups are switched on."""

COMPOSITES_SWITCHED_ON = (
    "Kubernetes 1.37 holds it by composite pod groups: the API server and the scheduler need the feature "
    "gates GenericWorkload, TopologyAwareWorkloadScheduling and CompositePodGroup, and the API server "
    "--runtime-config=scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true. The condition "
    "CompositesHeld of the backend says whether the scheduler holds them."
)
"""How composite pod groups are switched on."""
