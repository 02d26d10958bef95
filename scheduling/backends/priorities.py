"""The PriorityClasses behind OSMO's three priorities; the same on every scheduler.

Only LOW may be evicted. KAI treats pod groups below 100 as preemptible, so only LOW is below 100. Kubernetes'
own scheduler evicts any lower priority, so there HIGH uses the class of NORMAL: both evict LOW, and neither
evicts the other. Rejected: ``preemptionPolicy: Never`` for HIGH, because then HIGH could not evict LOW while
NORMAL could; classes are shared by all schedulers of a cluster, and immutable.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from uuid import UUID

from scheduling import names
from scheduling.backends.base import Manifest

PRIORITIES: Mapping[str, int] = {"HIGH": 125, "NORMAL": 100, "LOW": 50}


def effective_priority(priority: str, *, spares_normal: bool) -> str:
    """The priority whose class work of ``priority`` gets on a scheduler."""
    return priority if spares_normal or priority != "HIGH" else "NORMAL"


def class_names(prefix: str) -> frozenset[str]:
    """The names of the PriorityClasses of backends with this prefix."""
    return frozenset(names.priority_class(priority, prefix=prefix) for priority in PRIORITIES)


def priority_classes(installation: UUID, class_names: AbstractSet[str]) -> tuple[Manifest, ...]:
    """The PriorityClasses of these names; the end of a name is its priority."""
    return tuple(_priority_class(installation, name) for name in sorted(class_names))


def _priority_class(installation: UUID, name: str) -> Manifest:
    priority = name.rpartition("-")[2].upper()
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name, "labels": {names.INSTALLATION_LABEL: installation.hex}},
        "value": PRIORITIES[priority],
        "globalDefault": False,
        "description": f"Workflows of priority {priority}.",
    }
