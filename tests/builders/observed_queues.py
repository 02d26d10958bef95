"""Queues of a scheduler as the observer follows them."""

from django.utils import timezone

from pools.documents.backend import queues_of
from pools.models import ObservedResource
from scheduling.queues.queue_state import QueueBound, QueueState
from tests.builders.completeness import note_lists


def observe_queues(pool, *, guarantee=-1, **queues):
    """Queues as the observer writes them; the pool's own is ``own`` and stands below ``above``.

    Each is (limit, used) in GPUs; all have the same guarantee.
    """
    cluster = pool.backend.cluster
    own = queues_of(pool.backend).queue(pool.backend.namespace, pool.name)
    for name, (limit, used) in queues.items():
        state = QueueState(
            name=own if name == "own" else name,
            parent="above" if name == "own" else "",
            bounds={"gpu": QueueBound(guarantee, limit)},
            used={"gpu": used},
        )
        ObservedResource.objects.create(
            cluster=cluster,
            resource="queues.scheduling.run.ai",
            name=state.name,
            uid=state.name,
            reading=state.to_json(),
            seen_at=timezone.now(),
        )
    note_lists({"queues.scheduling.run.ai": ""}, cluster=cluster)
    return own
