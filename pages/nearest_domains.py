"""The domains nearest to having room for a set, for the pages of the map and of a workflow. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pages.short_names import ShortName, domain_names
from scheduling.fit.verdict import DomainCapacity
from scheduling.nodes.taints import MOST_TAINTS
from scheduling.sentences import count_of, plain_listing
from workflows.feasibility.verdict.sentences import in_namespaces


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestDomain:
    """Room for tasks now and when empty, the missing room in tasks, and the nodes of each holder.

    ``tainted`` counts the nodes of each taint that may pass.
    """

    name: ShortName
    free: int
    empty: int
    missing: int
    closed: int
    tainted: str
    without_channel: int
    holders: tuple[tuple[str, str], ...]
    free_at: datetime | None


def nearest_domains(capacities: Sequence[DomainCapacity]) -> tuple[NearestDomain, ...]:
    names = domain_names([capacity.path for capacity in capacities])
    return tuple(map(_nearest_domain, capacities, names))


def _nearest_domain(capacity: DomainCapacity, name: ShortName) -> NearestDomain:
    return NearestDomain(
        name=name,
        free=capacity.free,
        empty=capacity.empty,
        missing=capacity.missing,
        closed=capacity.closed,
        tainted=plain_listing(
            [f"{entry.taint} ({entry.nodes})" for entry in capacity.tainted], limit=MOST_TAINTS
        ),
        without_channel=capacity.without_channel,
        holders=tuple(
            (holder.name, f"{count_of(holder.nodes, 'node')}{in_namespaces(holder)}")
            for holder in capacity.holders
        ),
        free_at=capacity.free_at,
    )
