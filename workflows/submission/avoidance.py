"""Which suspect nodes a submission avoids, where its pool says so.

No node is avoided so far that a group could never be placed: then the suspects of longest standing are used
after all, as few as needed, and the reply says so. Bounded: with many suspects only the newest are avoided.
"""

from collections.abc import Sequence
from datetime import datetime

from pools.models import Node, Pool
from pools.pod_templates.applied import node_selection
from pools.selectors import Caller
from scheduling.fit.verdict import Answer
from scheduling.kubernetes_syntax import selects
from scheduling.levels import HOSTNAME_LABEL
from scheduling.sentences import agree, plain_listing
from workflows.feasibility.report import feasibility
from workflows.nodes.suspects import suspects_of
from workflows.values.placement import GroupValues

MOST_AVOIDED = 64
MOST_NAMED = 5


def avoiding_suspects(
    groups: tuple[GroupValues, ...], pool: Pool, *, user: Caller, now: datetime
) -> tuple[tuple[GroupValues, ...], list[str]]:
    """The groups with their suspect nodes excluded, and what to tell the user."""
    suspects = _suspects(pool)[-MOST_AVOIDED:] if pool.avoid_suspect_nodes else []
    if not suspects or not groups:
        return groups, []

    def fits_without(yielding: int) -> bool:
        return not _never(_avoiding(groups, suspects[yielding:]), pool, user=user, now=now)

    if fits_without(0):
        return _avoiding(groups, suspects), [_avoided(suspects)]
    if not fits_without(len(suspects)):  # it is not the suspects that it lacks
        return _avoiding(groups, suspects), [_avoided(suspects)]
    least, most = 1, len(suspects)
    while least < most:
        middle = (least + most) // 2
        least, most = (least, middle) if fits_without(middle) else (middle + 1, most)
    rest = suspects[least:]
    return _avoiding(groups, rest), [*([_avoided(rest)] if rest else []), _used(suspects[:least])]


def _suspects(pool: Pool) -> list[str]:
    """The host names of the pool's suspect nodes, those suspect for longest first."""
    suspects, selector = suspects_of(pool.backend.cluster_id), node_selection(pool)
    rows = Node.objects.filter(cluster_id=pool.backend.cluster_id, name__in=suspects) if suspects else []
    hosts = {
        row.name: row.labels.get(HOSTNAME_LABEL, row.name) for row in rows if selects(selector, row.labels)
    }
    return [hosts[name] for name in suspects if name in hosts]


def _avoiding(groups: Sequence[GroupValues], nodes: Sequence[str]) -> tuple[GroupValues, ...]:
    return tuple(group.avoiding(nodes) for group in groups)


def _never(groups: Sequence[GroupValues], pool: Pool, *, user: Caller, now: datetime) -> bool:
    reports = feasibility(groups, cluster=pool.backend.cluster_id, user=user, now=now)
    return any(report.answer is Answer.NEVER for report in reports)


def _avoided(nodes: Sequence[str]) -> str:
    number = len(nodes)
    verb = agree(number, "node is", "nodes are")
    return f"Suspect {verb} avoided: {plain_listing(sorted(nodes), limit=MOST_NAMED)}."


def _used(nodes: Sequence[str]) -> str:
    verb = agree(len(nodes), "is suspect and is", "are suspect and are")
    return (
        f"{plain_listing(sorted(nodes), limit=MOST_NAMED)} {verb} used nevertheless: without "
        f"{agree(len(nodes), 'it', 'them')} a task group could never be placed."
    )
