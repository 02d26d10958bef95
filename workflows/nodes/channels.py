"""The NVLink channels of nodes, from what the observer wrote of them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db.models import Case, F, QuerySet, When

from pools.models import Node, Pool
from pools.pod_templates.applied import node_selection
from pools.selectors import pool_nodes
from pools.values.completeness import where_known
from scheduling.kubernetes_syntax import GPU
from scheduling.nodes.channels import has_channel
from scheduling.nodes.devices import SLICES

CHANNEL_FIELDS = ("offers_channel", "channel_since", "slices_observed_at")

SLICES_OBSERVED_AT = Case(
    When(where_known(SLICES, of="cluster__"), then=F("cluster__heartbeat_at")), default=None
)
"""Until when the slices of a node's cluster are known; null where they are not followed."""


def with_channels(nodes: QuerySet[Node]) -> QuerySet[Node]:
    """The nodes with CHANNEL_FIELDS."""
    return nodes.annotate(slices_observed_at=SLICES_OBSERVED_AT)


def channel_of(row: Mapping[str, Any], *, now: datetime) -> bool | None:
    """Whether a node has a channel, from CHANNEL_FIELDS; None where that is not known."""
    return has_channel(
        offers=row["offers_channel"],
        since=row["channel_since"],
        observed_at=row["slices_observed_at"],
        now=now,
    )


def nodes_without_channel(pool: Pool, *, now: datetime) -> tuple[str, ...]:
    """The pool's nodes with GPUs that should have a channel and have none, by name. One query.

    None in a pool without NVLink, and none of platforms that have no NVLink.
    """
    if not pool.nvlink:
        return ()
    nodes = with_channels(pool_nodes(pool)).filter(offers_channel=False, allocatable__has_key=GPU)
    for platform in pool.platforms.all():
        if platform.nvlink is False:
            nodes = nodes.exclude(labels__contains=node_selection(pool, platform))
    rows = nodes.order_by("name").values("name", *CHANNEL_FIELDS)
    return tuple(row["name"] for row in rows if channel_of(row, now=now) is False)
