"""The contents of the pages of pools, from rows: a fixed number of queries, none of them to a cluster."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from pages.pools.snippet import Asks, Offer, amounts_for, snippet
from pages.short_names import ShortName, domain_name, domain_names
from pools.api.representations import pool_status
from pools.clusters.capabilities import capabilities_of
from pools.documents.default_topology import default_of
from pools.documents.recovery import words_of
from pools.interfaces import usage
from pools.models import Pool
from pools.pod_templates.applied import node_selection
from pools.selectors import (
    Caller,
    KeyDomains,
    freshness_by_cluster,
    key_domains,
    may_explain,
    pool_levels,
)
from pools.values.freshness import NEVER_OBSERVED, Freshness
from pools.values.recovery_words import policy_of
from scheduling.capabilities import Capability
from scheduling.fit.snapshot import FitNode
from scheduling.sentences import plain_listing
from scheduling.topology.levels import domains_of
from web.access.rights import grants_of
from web.policy import Action, Grants
from workflows.feasibility.capacity.usage import PoolNode, nodes_of, placed_tasks, used_by_node
from workflows.feasibility.placement.fragmentation import PoolFragments, fragments_of, usable_pool_nodes
from workflows.feasibility.placement.pool_outcomes import PoolOutcomes, outcomes_in
from workflows.lifecycle.statuses import LIVE_ORDER, TaskStatus
from workflows.models import TaskGroup, in_status
from workflows.nodes.channels import nodes_without_channel
from workflows.nodes.suspects import suspects_of
from workflows.values.amounts import NO_AMOUNTS, Amounts

MOST_WAITING = 20
MOST_DOMAINS = 12
SNIPPET_TASKS = 2
_GIB = 2**30
_GPU, _CPU, _MEMORY = 0, 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRoom:
    """GPUs and nodes of a pool; its pods may use ``open_nodes``, ``free_gpus`` are unused on those."""

    nodes: int = 0
    open_nodes: int = 0
    gpus: int = 0
    free_gpus: int = 0
    uncounted: int = 0
    """How many nodes offer GPUs that are not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLine:
    """A pool in the list. ``live`` counts what has not ended; None: not the caller's to list."""

    pool: Pool
    status: str
    keys: tuple[str, ...]
    room: PoolRoom
    freshness: Freshness
    live: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLine:
    """A key of a pool with its largest domains."""

    key: str
    label: str
    count: int
    outside: int
    largest: tuple[tuple[ShortName, int], ...]
    more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FitLine:
    """What fits now in the domains of a key; ``counts`` by ``Fits.sizes``, None: larger than any domain."""

    key: str
    largest: int
    domain: ShortName
    counts: tuple[int | None, ...]
    unlabelled: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fits:
    """``free`` nodes of ``nodes`` are open and wholly free; ``sizes`` are 1, 2, 4, 8, ... nodes."""

    nodes: int
    free: int
    sizes: tuple[int, ...]
    lines: tuple[FitLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingLine:
    """A task group that waits."""

    name: str
    workflow: str
    submitted_by: str
    since: datetime | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolContent:
    """Everything on the page of one pool, as values: two pages are the same if these are.

    ``waiting`` and ``outcomes`` are None where the caller may not list workflows. ``defaults`` says what
    groups get that name no key.
    """

    name: str
    description: str
    nvlink: bool
    scheduler: str
    status: str
    room: PoolRoom
    recovery: str
    defaults: tuple[str, ...]
    cluster: str
    """The backend, if what others submitted there has a page for the caller; else empty."""
    suspects: tuple[str, ...]
    without_channel: str
    freshness: Freshness
    keys: tuple[KeyLine, ...]
    snippet: str
    waiting: tuple[WaitingLine, ...] | None
    more_waiting: bool
    fits: Fits
    outcomes: PoolOutcomes | None


def pool_lines(pools: Sequence[Pool], *, user: Caller) -> list[PoolLine]:
    """The pools with their room and their live work; each came with its keys and platforms. Five queries."""
    nodes = nodes_of(pools)
    used, live = used_by_node(placed_tasks({node.cluster for node in nodes})), usage().living_by_pool()
    grants, now = grants_of(user), timezone.now()
    freshness = freshness_by_cluster({pool.backend.cluster_id or "" for pool in pools})
    return [
        PoolLine(
            pool=pool,
            status=pool_status(pool, now=now),
            keys=tuple(row.key for row in pool.topology_keys.all()),
            room=_room_of_rows(pool.name, [node for node in nodes if pool.name in node.pools], used),
            freshness=freshness.get(pool.backend.cluster_id or "", NEVER_OBSERVED),
            live=live.get(pool.name, 0) if _may_list(grants, pool) else None,
        )
        for pool in pools
    ]


def pool_content(pool: Pool, *, user: Caller, outcomes_since: datetime) -> PoolContent:
    """One pool, which came with its keys and platforms. Its nodes are read once."""
    observed, backend = usable_pool_nodes(pool), pool.backend
    nodes, levels = observed.snapshot.nodes, observed.snapshot.levels
    places = Counter(domains_of(node.labels, levels) for node in nodes)
    may_list = _may_list(grants_of(user), pool)
    waiting = _waiting(pool) if may_list else []
    return PoolContent(
        name=pool.name,
        description=pool.description,
        nvlink=pool.nvlink,
        scheduler=backend.scheduler_type,
        status=pool_status(pool, now=timezone.now()),
        room=_room(nodes),
        recovery=policy_of([words_of(pool.recovery)]).summary,
        defaults=tuple(_defaults(pool)),
        cluster=backend.name if backend.follow_others and may_explain(user, backend.name) else "",
        suspects=tuple(sorted(suspects_of(backend.cluster_id).keys() & {node.name for node in nodes})),
        without_channel=plain_listing(nodes_without_channel(pool, now=timezone.now())),
        freshness=observed.freshness,
        keys=tuple(map(_key_line, key_domains(levels, places))),
        snippet=snippet(_offer(pool, nodes)),
        waiting=tuple(waiting[:MOST_WAITING]) if may_list else None,
        more_waiting=len(waiting) > MOST_WAITING,
        fits=_fits(fragments_of(observed)),
        outcomes=outcomes_in(pool.name, since=outcomes_since) if may_list else None,
    )


def _defaults(pool: Pool) -> Iterator[str]:
    """The default topology of a pool and of each platform that has its own, in words."""
    levels = pool_levels(pool)
    if default := default_of(pool.default_topology):
        yield default.in_pool(levels).words or "nothing, because the pool has no keys"
    for row in pool.platforms.all():
        default = default_of(row.default_topology)
        if default is not None:
            yield f"{default.in_pool(levels).words or 'nothing'} (on platform {row.name})"


def pool_snippet(pool: Pool) -> str:
    """A workflow that the pool accepts as it stands; it came with its keys and platforms."""
    return snippet(_offer(pool, usable_pool_nodes(pool).snapshot.nodes))


def _may_list(grants: Grants, pool: Pool) -> bool:
    return bool(grants.allows(Action.WORKFLOW_LIST, f"pool/{pool.name}"))


def _room_of_rows(pool: str, nodes: Sequence[PoolNode], used: Mapping[tuple[str, str], Amounts]) -> PoolRoom:
    open_nodes = [node for node in nodes if pool in node.usable_by]
    return PoolRoom(
        nodes=len(nodes),
        open_nodes=len(open_nodes),
        gpus=sum(node.gpus[pool] for node in nodes),
        free_gpus=sum(node.free(used.get(node.key, NO_AMOUNTS), [pool]).gpu for node in open_nodes),
        uncounted=sum(bool(node.gpu_notes[pool]) for node in nodes),
    )


def _room(nodes: Sequence[FitNode]) -> PoolRoom:
    open_nodes = [node for node in nodes if not node.closed]
    return PoolRoom(
        nodes=len(nodes),
        open_nodes=len(open_nodes),
        gpus=sum(node.allocatable[_GPU] for node in nodes),
        free_gpus=sum(node.free_of(_GPU) for node in open_nodes),
        uncounted=sum(bool(node.gpu_note) for node in nodes),
    )


def _waiting(pool: Pool) -> list[WaitingLine]:
    """Those that wait longest, one more than the page shows."""
    waits = set(LIVE_ORDER) - {TaskStatus.RUNNING}
    rows = TaskGroup.objects.filter(in_status(*waits), workflow__pool_name=pool.name, released_at=None)
    groups = rows.exclude(waiting_reason="").order_by("waiting_since", "pk")
    values = groups.values_list(
        "name", "workflow__name", "workflow__submitted_by", "waiting_since", "waiting_reason"
    )
    return [
        WaitingLine(name=name, workflow=workflow, submitted_by=submitter, since=since, reason=reason)
        for name, workflow, submitter, since, reason in values[: MOST_WAITING + 1]
    ]


def _key_line(domains: KeyDomains) -> KeyLine:
    by_size = sorted(domains.domains.items(), key=lambda item: (-item[1], item[0]))
    largest = by_size[:MOST_DOMAINS]
    return KeyLine(
        key=domains.level.key,
        label=domains.level.label,
        count=len(domains.domains),
        outside=domains.outside,
        largest=tuple(zip(domain_names([path for path, _ in largest]), dict(largest).values(), strict=True)),
        more=max(0, len(by_size) - MOST_DOMAINS),
    )


def _fits(fragments: PoolFragments) -> Fits:
    sizes = max((tuple(key.slots) for key in fragments.keys), key=len, default=())
    lines = (
        FitLine(
            key=key.key,
            largest=key.largest,
            domain=domain_name(key.domain),
            counts=tuple(key.slots.get(size) for size in sizes),
            unlabelled=key.unlabelled,
        )
        for key in fragments.keys
    )
    return Fits(nodes=fragments.nodes, free=fragments.free, sizes=sizes, lines=tuple(lines))


def _offer(pool: Pool, nodes: Sequence[FitNode]) -> Offer:
    capabilities = capabilities_of(pool.backend)
    platforms = {row.name: row for row in pool.platforms.all()}
    default = pool.default_platform if pool.default_platform in platforms else None
    platform = default or (min(platforms) if platforms else None)
    selection = node_selection(pool, platforms[platform] if platform else None).items()
    candidates = [node for node in nodes if not node.closed and selection <= node.labels.items()]
    return Offer(
        levels=pool_levels(pool),
        nvlink=pool.nvlink,
        can_require=Capability.TOPOLOGY_REQUIRED in capabilities,
        can_prefer=Capability.TOPOLOGY_PREFERRED in capabilities,
        platform=None if default else platform,
        asks=amounts_for([_asks(node) for node in candidates]),
        tasks=SNIPPET_TASKS,
    )


def _asks(node: FitNode) -> Asks:
    return Asks(
        gpu=node.allocatable[_GPU],
        cpu=node.allocatable[_CPU] // 1000,
        memory=node.allocatable[_MEMORY] // _GIB,
    )
