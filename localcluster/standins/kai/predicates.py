"""What is asked of a pod before any node is looked at: its volume claims and ConfigMaps exist.

KAI reports all that fail at once, each on a line of its own.
Source: KAI ``plugins/predicates/predicates.go``, ``k8s_internal/predicates/config_maps.go``.
"""

from localcluster.standins.kai.values import Pod, Snapshot


def before_nodes(pod: Pod, snapshot: Snapshot) -> str | None:
    """Why no node is looked at for the pod, or None."""
    missing = [name for name in pod.config_maps if (pod.namespace, name) not in snapshot.config_maps]
    errors = {
        "VolumeBinding": _volumes(pod, snapshot),
        "ConfigMap": f"Missing required configmaps: [{' '.join(missing)}]" if missing else None,
    }
    lines = "".join(f"{name}: {error}.\n" for name, error in errors.items() if error)
    head = f"Scheduling conditions were not met for pod {pod.namespace}/{pod.name}:\n"
    return f"{head}{lines}" if lines else None


def _volumes(pod: Pod, snapshot: Snapshot) -> str | None:
    for name in pod.volume_claims:
        deleting = snapshot.volume_claims.get((pod.namespace, name))
        if deleting is None:
            return f'persistentvolumeclaim "{name}" not found'
        if deleting:
            return f'persistentvolumeclaim "{name}" is being deleted'
    return None
