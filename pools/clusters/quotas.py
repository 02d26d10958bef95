"""The quotas of a namespace, as a cluster has them."""

from typing import Any

from cluster.errors import ClusterError, NotServed, RequestForbidden
from cluster.interface import ClusterApi, Obj
from cluster.kinds import RESOURCE_QUOTA
from cluster.quantities import quantity
from scheduling.queues.namespace_quota import NamespaceQuota, quota_of

UNREADABLE = (NotServed, RequestForbidden)
"""Where quotas may not be read, they show only as refusals of pods."""


def see_quota(obj: Obj) -> NamespaceQuota | None:
    return quota_of(obj, quantity=quantity)


def read_quotas(cluster: ClusterApi, namespace: str) -> tuple[dict[str, Any], ...] | None:
    """The quotas on pods, as JSON; None where they cannot be read."""
    try:
        quotas = cluster.scan(RESOURCE_QUOTA, see_quota, namespace=namespace).items
    except ClusterError:
        return None
    return tuple(quota.to_json() for quota in quotas if quota is not None)
