"""The right to point a backend at a kubeconfig, a namespace or a queue that another backend uses.

A kubeconfig is credentials, and a namespace has the Secrets and the pods of its tasks. Whoever may write one
backend would otherwise have those of all others. So a new address needs ``config:Update`` on each backend
that has the same file, whichever context it uses, or the same namespace of the same cluster. A cluster that
is not known may be any.

A queue of another backend is another's share of the cluster: pools below it would take from it, and KAI runs
nothing in a queue that has others below it. Which queues a backend has shows in their names, so that of a
pool that does not exist yet is its backend's too.
"""

from cluster.connection import own_namespace
from pools.checks.namespaces import reserved_namespace
from pools.clusters.probe import Address
from pools.documents.backend import queues_of
from pools.models import Backend
from pools.services.recording import ConfigChange, refuse_unless_may_use
from scheduling.backends.registry import installed
from scheduling.errors import Fault, Forbidden
from web.policy import Action


def refuse_kubeconfig_of_others(
    name: str, address: Address, *, before: Backend | None, change: ConfigChange
) -> None:
    """Raise Forbidden for a new kubeconfig or context whose file is also another backend's."""
    if before and (before.kubeconfig, before.context) == (address.kubeconfig, address.context):
        return
    subject = f"Kubeconfig {address.kubeconfig}" if address.kubeconfig else "The service account of the pod"
    for other in _others(name, change):
        if other.kubeconfig == address.kubeconfig:
            _refuse_unless_theirs(other, change, why=f"{subject} is used by another backend.")


def refuse_namespace_of_others(
    name: str, address: Address, *, before: Backend | None, cluster_uid: str | None, change: ConfigChange
) -> None:
    """Raise Forbidden for a new namespace that is also another backend's; ``cluster_uid`` None: not known."""
    place = (address.kubeconfig, address.context, address.namespace)
    if before and (before.kubeconfig, before.context, before.namespace) == place:
        return
    for other in _others(name, change):
        if other.namespace == address.namespace and not _is_elsewhere(other, cluster_uid):
            where = "" if cluster_uid and other.cluster_id else ", perhaps of the same cluster"
            why = f'Namespace "{address.namespace}"{where} is used by another backend.'
            _refuse_unless_theirs(other, change, why=why)


def refuse_parent_of_others(
    name: str, parent: str, *, before: Backend | None, cluster_uid: str | None, change: ConfigChange
) -> None:
    """Raise Forbidden for a new parent of the pools' queues that another backend has or is below."""
    is_there = before and (before.cluster_id, before.queue_settings.get("parent")) == (cluster_uid, parent)
    if not parent or is_there:
        return
    for other in _others(name, change):
        if _is_elsewhere(other, cluster_uid):
            continue
        queues = queues_of(other)
        of_pools = f"{queues.prefix}-pool-{other.namespace}-"
        if parent == queues.parent_queue(other.namespace) or parent.startswith(of_pools):
            _refuse_unless_theirs(other, change, why=f'Queue "{parent}" is used by another backend.')


def faults_of_namespace(namespace: str, *, before: Backend | None) -> list[Fault]:
    """Find whether a new namespace belongs to the system."""
    if before and before.namespace == namespace:
        return []
    checks = [scheduler.installation for scheduler in installed().values() if scheduler.installation]
    schedulers = {query.namespace for check in checks for query in check.installation_queries}
    return reserved_namespace(namespace, schedulers=schedulers - {""}, own=own_namespace())


def faults_of_prefix(prefix: str, *, before: Backend | None) -> list[Fault]:
    """Find whether queues with a new prefix could have the names of queues with another one."""
    words = prefix.split("-")[1:]
    if not {"pool", "default"} & set(words) or (before and before.queue_settings.get("prefix") == prefix):
        return []
    message = (
        'After the first "-" a prefix has no word "pool" or "default": these words begin the rest of a '
        "queue's name, which would be that of a queue with a shorter prefix."
    )
    return [Fault(("queue_settings", "prefix"), "invalid_prefix", message, allowed=("osmo-topology", "osmo"))]


def _others(name: str, change: ConfigChange) -> list[Backend]:
    """The backends that have something in their clusters, the hidden ones too; none for an operator."""
    if change.grants is None:
        return []
    return list(Backend.objects.filter(cleaned_at=None).exclude(name=name).order_by("name"))


def _is_elsewhere(other: Backend, cluster_uid: str | None) -> bool:
    """Whether another backend is certainly of another cluster; one that is not known may be any."""
    return None not in (cluster_uid, other.cluster_id) and cluster_uid != other.cluster_id


def _refuse_unless_theirs(other: Backend, change: ConfigChange, *, why: str) -> None:
    if change.knows(other.name):
        refuse_unless_may_use(change, other.name, why=why)
    else:
        raise Forbidden(f"{why} This needs {Action.CONFIG_UPDATE} on that backend.")
