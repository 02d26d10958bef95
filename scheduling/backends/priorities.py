"""The PriorityClasses behind OSMO's three priorities; the same on every scheduler.

Only LOW may be evicted. KAI treats pod groups below 100 as preemptible, so only LOW is below 100. Kubernetes'
own scheduler evicts any lower priority, so there HIGH uses the class of NORMAL: both evict LOW, and neither
evicts the other. Rejected: ``preemptionPolicy: Never`` for HIGH, because then HIGH could not evict LOW while
NORMAL could; classes are shared by all schedulers of a cluster, and immutable.
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
