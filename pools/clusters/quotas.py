"""The quotas of a namespace, as a cluster has them."""

from cluster.errors import NotServed, RequestForbidden
from cluster.interface import Obj
from cluster.quantities import quantity
from scheduling.queues.namespace_quota import NamespaceQuota, quota_of

UNREADABLE = (NotServed, RequestForbidden)
"""Where quotas may not be read, they show only as refusals of pods."""


def see_quota(obj: Obj) -> NamespaceQuota | None:
    return quota_of(obj, quantity=quantity)
