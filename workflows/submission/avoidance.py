"""Which suspect nodes a submission avoids, where its pool says so.

No node is avoided so far that a group could never be placed: then the suspects of longest standing are used
after all, as few as needed, and the reply says so. Bounded: with many suspects only the newest are avoided.
"""

from collections.abc import Sequence

from pools.models import Pool
from pools.pod_templates.applied import node_selection
from scheduling.nodes.suspects import most_avoided
from scheduling.sentences import agree, plain_listing
from workflows.feasibility.verdict.avoidance import UsableNodes
from workflows.nodes.hosts import hosts_of
from workflows.nodes.suspects import suspects_of
from workflows.values.placement import GroupValues

MOST_AVOIDED = 64
MOST_NAMED = 5


def avoiding_suspects(
    groups: tuple[GroupValues, ...], pool: Pool
) -> tuple[tuple[GroupValues, ...], list[str]]:
    """The groups with their suspect nodes excluded, and what to tell the user."""
    suspects = _suspects(pool)[:MOST_AVOIDED] if pool.avoid_suspect_nodes else []
    if not suspects or not groups:
        return groups, []
    usable = UsableNodes(groups, cluster=pool.backend.cluster_id or "")
    avoided = most_avoided(suspects, never=usable.never_without)
    used = suspects[len(avoided) :]
    texts = [*([_avoided(avoided)] if avoided else []), *([_used(used)] if used else [])]
    return tuple(group.avoiding(avoided) for group in groups), texts


def _suspects(pool: Pool) -> list[str]:
    """The host names of the pool's suspect nodes, the newest suspicion first."""
    suspects, cluster = suspects_of(pool.backend.cluster_id), pool.backend.cluster_id or ""
    if not suspects:
        return []
    hosts = hosts_of([*suspects], cluster=cluster, selector=node_selection(pool))
    return [hosts[name] for name in reversed(suspects) if name in hosts]


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
