"""The PriorityClasses behind OSMO's three priorities; the same on every scheduler.

KAI takes a pod group below 100 as preemptible, so LOW alone is.
"""

from collections.abc import Mapping
from uuid import UUID

from scheduling import names
from scheduling.backends.base import Manifest

PRIORITIES: Mapping[str, int] = {"HIGH": 125, "NORMAL": 100, "LOW": 50}


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
