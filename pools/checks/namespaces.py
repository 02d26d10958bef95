"""The namespaces that no backend may newly have: tasks would run beside what runs the cluster. Pure."""

from collections.abc import Collection

from scheduling.errors import Fault

KUBERNETES_PREFIX = "kube-"
"""Reserved by Kubernetes for its own namespaces."""

CONTROLLERS = frozenset(
    {
        "gpu-operator",
        "kai-resource-reservation",
        "node-feature-discovery",
        "nvidia-dra-driver-gpu",
        "nvidia-gpu-operator",
        "nvidia-network-operator",
    }
)
"""Where drivers of GPUs and KAI's reservations are installed by default."""


def reserved_namespace(namespace: str, *, schedulers: Collection[str], own: str) -> list[Fault]:
    """Find the fault of a namespace of the system, of a scheduler's controllers, or of the service itself.

    ``schedulers`` are the namespaces of installed schedulers' controllers, ``own`` is that of this process,
    empty outside a cluster.
    """
    if namespace.startswith(KUBERNETES_PREFIX):
        owner = "Kubernetes"
    elif namespace in CONTROLLERS or namespace in schedulers:
        owner = "a controller of the cluster"
    elif own and namespace == own:
        owner = "this service"
    else:
        return []
    message = (
        f'Namespace "{namespace}" belongs to {owner}, and workers may read Secrets where tasks are: name a '
        "namespace for tasks alone."
    )
    return [Fault(("k8s_namespace",), "reserved_namespace", message, allowed=("osmo",))]
