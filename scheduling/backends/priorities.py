"""The PriorityClasses behind OSMO's three priorities; the same on every scheduler.

Only LOW may be evicted. KAI takes a pod group below 100 as preemptible, so LOW alone is. Kubernetes' own
scheduler evicts whatever is lower, so there HIGH has to be of NORMAL's class: both evict LOW, and neither
the other. Rejected: ``preemptionPolicy: Never`` for HIGH, which would evict LOW no more while NORMAL still
did; the classes are shared by all schedulers of a cluster, and immutable.
"""

from collections.abc import Mapping
from uuid import UUID

from scheduling import names
from scheduling.backends.base import Manifest

PRIORITIES: Mapping[str, int] = {"HIGH": 125, "NORMAL": 100, "LOW": 50}


def effective_priority(priority: str, *, spares_normal: bool) -> str:
    """The priority whose class work of ``priority`` gets on a scheduler."""
    return priority if spares_normal or priority != "HIGH" else "NORMAL"


def priority_classes(installation: UUID) -> tuple[Manifest, ...]:
    return tuple(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {
                "name": names.priority_class(priority),
                "labels": {names.INSTALLATION_LABEL: installation.hex},
            },
            "value": value,
            "globalDefault": False,
            "description": f"Workflows of priority {priority}.",
        }
        for priority, value in PRIORITIES.items()
    )
