"""The shared objects that a pool needs in its cluster, and the queue that its groups join."""

from collections.abc import Sequence
from uuid import UUID

from django.db.models import Q

from pools import selectors
from pools.documents.backend import queues_of
from pools.models import ObservedResource, Pool
from pools.pod_templates.applied import node_selection, requested_resources
from pools.services.recording import ConfigChange
from scheduling.backends.base import Manifest, PoolRequest, QueueSettings
from scheduling.backends.registry import installed


def pool_objects(
    pool: Pool, installation: UUID, *, queues: QueueSettings | None = None
) -> Sequence[Manifest]:
    """The shared objects that a pool needs; ``queues`` are the settings of its backend."""
    scheduler = installed().get(pool.backend.scheduler_type)
    if scheduler is None:
        return ()
    return scheduler.rendering.pool_objects(pool_request(pool, installation, queues=queues))


def pool_request(pool: Pool, installation: UUID, *, queues: QueueSettings | None = None) -> PoolRequest:
    """A pool as its scheduler takes it; ``queues`` are the settings of its backend."""
    gpu = pool.resources.get("gpu") or {}
    queues = queues or queues_of(pool.backend)
    return PoolRequest(
        namespace=pool.backend.namespace,
        pool=pool.name,
        installation=installation,
        levels=selectors.pool_levels(pool),
        gpu_guarantee=gpu.get("guarantee", -1),
        gpu_maximum=gpu.get("maximum", -1),
        gpu_weight=gpu.get("weight", 1),
        external_topology=pool.topology_name,
        queues=queues,
        local_queue=pool.local_queue,
        node_selector=node_selection(pool),
        resources=requested_resources(pool) if queues.own else frozenset(),
    )


def queue_owner(pool: Pool, queue: str, change: ConfigChange) -> str:
    """The other owner of a LocalQueue in the namespace of a pool's backend: words for a message, or nothing.

    Pools that the author of the change may write are theirs, and nobody else's.
    """
    backend, installation = pool.backend, selectors.installation()
    observed = ObservedResource.objects.filter(
        cluster_id=backend.cluster_id, name=f"{backend.namespace}/{queue}", reading__has_key="owner"
    )
    if any(observed.values_list("reading__owner", flat=True)):
        return "a pool for which it was made"
    beside = Q(backend=backend)
    if backend.cluster_id:
        beside |= Q(backend__cluster_id=backend.cluster_id, backend__namespace=backend.namespace)
    others = Pool.objects.filter(beside).exclude(pk=pool.pk).select_related("backend")
    for other in others.prefetch_related("topology_keys", "platforms"):
        if not change.may_write(other.name) and queue_of(other, installation) == queue:
            return "another pool"
    return ""


def queue_of(pool: Pool, installation: UUID) -> str:
    """The queue that a pool's groups join: the one that it names, ours of its scheduler, or by its name."""
    if pool.local_queue:
        return pool.local_queue
    backend = pool.backend
    queues, scheduler = queues_of(backend), installed().get(backend.scheduler_type)
    if queues.own and scheduler is not None and scheduler.joined_queues is not None:
        return scheduler.joined_queues.own_queue(pool_request(pool, installation, queues=queues))
    return queues.queue(backend.namespace, pool.name)
