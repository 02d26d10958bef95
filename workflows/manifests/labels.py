"""Labels of a task group's objects: those that the service selects by, and those that OSMO's users expect.

The service's labels replace the user's. Two kinds of a user's labels are set on pods: those without a domain,
and those of the domains that the installation lists in ``OSMO_POD_LABEL_DOMAINS`` (with their subdomains). A
label with a domain belongs to the owner of the domain, on a cluster mostly a controller: injectors of
identities, sidecars and agents act on pods by such labels, and so do queues (``kai.scheduler/queue`` would
move a pod to another pool's quota). No list of those would be complete, so the installation lists what may be
set.

Never set are the labels of this service, of Kubernetes and of the schedulers, and the few labels without a
domain by which a controller treats a pod differently.
"""

import re
from collections.abc import Mapping
from uuid import UUID

from django.conf import settings

from scheduling import names
from scheduling.backends.registry import is_read_label
from workflows.values.placement import GroupPlacement, TaskTry

WORKFLOW = "osmo.nvidia.com/workflow"
POOL = "osmo.nvidia.com/pool"
TASK = "osmo.nvidia.com/task"
RETRY = "osmo.nvidia.com/retry"
MANAGED_BY = "app.kubernetes.io/managed-by"
PRODUCT = "osmo-topology"

_RESERVED = re.compile(
    r"osmo\.|([^/]*\.)?(nvidia\.com|grove\.io|volcano\.sh|istio\.io|kubernetes\.io|(x-)?k8s\.io)/"
)
"""Labels by which queueing layers, sidecar injectors or this service treat a pod differently."""

_RESERVED_WORDS = frozenset(
    {
        "aadpodidbinding",  # Azure's former pod identities
        "controller-revision-hash",
        "controller-uid",
        "job-name",
        "pod-group.scheduling.sigs.k8s.io",  # of coscheduling, before its labels had a domain
        "pod-template-hash",
    }
)
"""The same without a domain; workload controllers and schedulers count pods by them."""

_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_.-]")


def value(text: str) -> str:
    """The label value closest to ``text``: at most 63 characters of those that Kubernetes allows."""
    return _NOT_ALLOWED.sub("_", text)[: names.MAX_NAME].strip("_.-")


def is_reserved(key: str) -> bool:
    """Whether a user's label must not be set on a pod."""
    domain, slash, _ = key.rpartition("/")
    if slash and not _is_listed(domain):
        return True
    return key in _RESERVED_WORDS or _RESERVED.match(key) is not None or is_read_label(key)


def _is_listed(domain: str) -> bool:
    return any(domain == listed or domain.endswith(f".{listed}") for listed in settings.ENV.pod_label_domains)


def users(labels: Mapping[str, str]) -> dict[str, str]:
    """The user's labels that are set on pods."""
    return {key: value(text) for key, text in labels.items() if not is_reserved(key)}


def of_group(group: UUID, placement: GroupPlacement) -> dict[str, str]:
    """The labels of every object of a group."""
    return {
        names.INSTALLATION_LABEL: placement.terms.installation.hex,
        names.GROUP_LABEL: group.hex,
        WORKFLOW: placement.workflow_uuid.hex,
        POOL: value(placement.terms.pool),
        MANAGED_BY: PRODUCT,
    }


def of_pods(group: UUID, name: str, placement: GroupPlacement) -> dict[str, str]:
    """The labels of every pod of a group beside the user's: OSMO's, then the service's own."""
    return {
        "osmo.workflow_id": value(placement.workflow_name),
        "osmo.workflow_uuid": placement.workflow_uuid.hex,
        "osmo.group_name": value(name),
        "osmo.group_uuid": group.hex,
        "osmo.submitted_by": value(placement.submitted_by),
        "osmo.pool": value(placement.terms.pool),
        "osmo.priority": value(placement.priority.lower()),
        **of_group(group, placement),
    }


def of_task(task: TaskTry) -> dict[str, str]:
    """The labels that distinguish a pod from the others of its group."""
    return {
        "osmo.task_name": value(task.name),
        "osmo.task_uuid": task.task_uuid.hex,
        "osmo.retry_id": str(task.retry_id),
        "osmo.lead_container": "true" if task.placement.lead else "false",
        "osmo.platform": value(task.placement.platform),
        TASK: task.task_uuid.hex,
        RETRY: str(task.retry_id),
    }
