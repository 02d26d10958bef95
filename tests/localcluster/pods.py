"""Pods for the kubelets of the local cluster."""


def pod(*, annotations=None, labels=None, **spec):
    container = {"name": "main", "image": "any", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    return {
        "metadata": {"name": "p", "annotations": annotations or {}, "labels": labels or {}},
        "spec": {"containers": [container], "restartPolicy": "Never", **spec},
    }
