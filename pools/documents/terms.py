"""The scheduling terms of a pool, of its row and its backend's."""

from uuid import UUID

from pools.documents.backend import queues_of, version_of
from pools.models import Pool
from scheduling.terms import SchedulingTerms
from scheduling.topology.levels import Levels


def terms_of(pool: Pool, *, installation: UUID, queue: str, levels: Levels) -> SchedulingTerms:
    """The terms on which the pool's groups are scheduled from now on; ``queue`` is the one that they join."""
    backend = pool.backend
    queues = queues_of(backend)
    return SchedulingTerms(
        installation=installation,
        pool=pool.name,
        pool_revision=pool.revision,
        backend=backend.name,
        cluster_uid=backend.cluster_id or "",
        namespace=backend.namespace,
        scheduler_type=backend.scheduler_type,
        scheduler_name=backend.scheduler_name,
        scheduler_version=version_of(backend),
        queue=queue,
        queue_label=queues.label,
        shard=queues.shard,
        preemption_delay=queues.preemption_delay,
        levels=levels,
        external_topology=pool.topology_name if levels else "",
        unsupported_preferred=(
            "warn" if pool.unsupported_preferred == Pool.UnsupportedPreferred.WARN else "refuse"
        ),
    )
