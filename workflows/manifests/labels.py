"""Labels of what we make: how it is found again, and what OSMO's users look for.

Ours go over the user's, and a user's label in a namespace that gives orders to a scheduler or to us is
left out: ``kai.scheduler/queue`` on a pod would move it to another pool's quota.
"""

import re
from collections.abc import Mapping
from uuid import UUID

from scheduling import names
from workflows.values.placement import GroupPlacement, TaskTry

WORKFLOW = "osmo.nvidia.com/workflow"
POOL = "osmo.nvidia.com/pool"
TASK = "osmo.nvidia.com/task"
RETRY = "osmo.nvidia.com/retry"
MANAGED_BY = "app.kubernetes.io/managed-by"
PRODUCT = "osmo-topology"

_RESERVED = re.compile(
    r"osmo\.|runai[-/]|priorityClassName$|([^/]*\.)?"
    r"(nvidia\.com|run\.ai|kai\.scheduler|grove\.io|volcano\.sh|istio\.io|kubernetes\.io|(x-)?k8s\.io)/"
)
"""Names by which a scheduler, a queueing layer, a sidecar injector or we are told what to do with a pod."""

_ODD = re.compile(r"[^A-Za-z0-9_.-]")


def value(text: str) -> str:
    """A label value that says as much of ``text`` as Kubernetes allows: 63 characters of its alphabet."""
    return _ODD.sub("_", text)[: names.MAX_NAME].strip("_.-")


def is_reserved(key: str) -> bool:
    """Whether a label is not the user's to give a pod."""
    return _RESERVED.match(key) is not None


def users(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels a user may give."""
    return {key: value(text) for key, text in labels.items() if not is_reserved(key)}


def of_group(group: UUID, placement: GroupPlacement) -> dict[str, str]:
    """What every object of a group carries."""
    return {
        names.INSTALLATION_LABEL: placement.installation.hex,
        names.GROUP_LABEL: group.hex,
        WORKFLOW: placement.workflow_uuid.hex,
        POOL: value(placement.pool),
        MANAGED_BY: PRODUCT,
    }


def of_pods(group: UUID, name: str, placement: GroupPlacement) -> dict[str, str]:
    """What every pod of a group carries beside the user's labels: OSMO's, then ours."""
    return {
        "osmo.workflow_id": value(placement.workflow_name),
        "osmo.workflow_uuid": placement.workflow_uuid.hex,
        "osmo.group_name": value(name),
        "osmo.group_uuid": group.hex,
        "osmo.submitted_by": value(placement.submitted_by),
        "osmo.pool": value(placement.pool),
        "osmo.priority": value(placement.priority.lower()),
        **of_group(group, placement),
    }


def of_task(task: TaskTry) -> dict[str, str]:
    """What tells one pod of a group from the others."""
    return {
        "osmo.task_name": value(task.name),
        "osmo.task_uuid": task.task_uuid.hex,
        "osmo.retry_id": str(task.retry_id),
        "osmo.lead_container": "true" if task.placement.lead else "false",
        "osmo.platform": value(task.placement.platform),
        TASK: task.task_uuid.hex,
        RETRY: str(task.retry_id),
    }
