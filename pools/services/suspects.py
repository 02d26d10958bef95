"""Clearing the suspicion of a node, which workers raise (``workflows.nodes.suspects``)."""

import structlog
from django.db import transaction

from pools.models import Backend, NodeFailure, SuspectNode
from scheduling.errors import NotFound

log = structlog.get_logger(__name__)


def clear_suspicion(backend: Backend, *, node: str, by: str) -> None:
    """Trust a node of a backend's cluster again, as if it had never failed. Raises NotFound."""
    with transaction.atomic():
        deleted, _ = SuspectNode.objects.filter(cluster_id=backend.cluster_id, node=node).delete()
        if not deleted:
            raise NotFound(f'Backend "{backend.name}" has no suspect node {node[:253]!a}.')
        NodeFailure.objects.filter(cluster_id=backend.cluster_id, node=node).delete()
    log.info("suspicion_cleared", backend=backend.name, node=node, by=by)
