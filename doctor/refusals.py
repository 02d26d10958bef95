"""Where this database may not write, as the last examinations recorded it.

A backend may have moved to another namespace while groups of it run in the former one. The mark there is
compared as before, so a refusal there needs an operator as well, though no backend names that namespace now.
"""

from collections.abc import Iterator

from doctor.facts import WriteRefusal
from pools.models import Backend, ClusterGuard
from workflows.models import TaskGroup


def refusals(backend: str) -> Iterator[WriteRefusal]:
    """The backends (or the one of this name) in whose namespaces, present or former, nothing is written."""
    backends = Backend.objects.filter(cleaned_at=None, cluster__isnull=False).order_by("pk")
    messages = {
        (guard.cluster_uid, guard.namespace): guard.refusal
        for guard in ClusterGuard.objects.exclude(refusal="")
    }
    reported: set[tuple[str, str]] = set()
    for row in backends.filter(name=backend) if backend else backends:
        uid = str(row.cluster_id)
        if message := messages.get((uid, row.namespace)):
            yield WriteRefusal(backend=row.name, cluster=uid, message=message)
        for namespace in former_namespaces(row):
            if (uid, namespace) not in reported and _has_work(uid, namespace):
                reported.add((uid, namespace))
                message = f'In the former namespace "{namespace}": {messages[uid, namespace]}'
                yield WriteRefusal(backend=row.name, cluster=uid, message=message)


def former_namespaces(backend: Backend) -> list[str]:
    """The namespaces of its cluster with a refusal that no backend has any more."""
    if backend.cluster_id is None:
        return []
    present = Backend.objects.filter(cleaned_at=None, cluster_id=backend.cluster_id).values("namespace")
    refused = ClusterGuard.objects.filter(cluster_uid=backend.cluster_id).exclude(refusal="")
    return sorted(refused.exclude(namespace__in=present).values_list("namespace", flat=True))


def unfinished_namespaces(backend: Backend) -> list[str]:
    """The namespaces of its cluster, apart from its own, where groups may have objects; refused or not."""
    groups = TaskGroup.objects.filter(released_at=None, backend__cluster_id=backend.cluster_id)
    namespaces = set(groups.values_list("placement__namespace", flat=True)) if backend.cluster_id else set()
    return sorted(namespaces - {backend.namespace})


def _has_work(uid: str, namespace: str) -> bool:
    """Whether a group may still have objects there; without one nobody examines the mark any more."""
    unreleased = TaskGroup.objects.filter(released_at=None, backend__cluster_id=uid)
    return unreleased.filter(placement__namespace=namespace).exists()
