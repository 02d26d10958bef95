"""The facts of a pool that admission needs, read once and passed on as values.

A fixed number of queries, none of them to a cluster: the observer's rows of nodes answer how many GPUs a
node of each platform has and which nodes lack a topology label.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from pools import conditions
from pools.clusters.capabilities import capabilities_of
from pools.documents.backend import BarrierSettings, queues_of, shard_label, start_barrier_of
from pools.documents.default_topology import default_of
from pools.documents.recovery import words_of
from pools.documents.terms import terms_of
from pools.documents.workflow import WorkflowLimits
from pools.models import Node, Platform, Pool
from pools.pod_templates.applied import frozen_pod, node_selection, tolerations_of
from pools.selectors import installation, pool_levels, pool_nodes, workflow_limits
from pools.services.pool_objects import queue_of
from pools.values.durations import parse_duration
from pools.values.recovery_words import RecoveryWords
from scheduling.backends.base import QueueSettings
from scheduling.backends.registry import traits_of
from scheduling.capabilities import Capabilities
from scheduling.nodes.channels import NAMED, ChannelCount
from scheduling.terms import SchedulingTerms
from scheduling.topology.coverage import LabelCoverage, LevelCoverage, levels_named
from scheduling.topology.defaults import DefaultTopology
from scheduling.topology.levels import DomainPath
from scheduling.topology.requirements import Gang, effective
from workflows.explain.levels import NAMED_NODES, unavailable, uncovered
from workflows.feasibility.capacity.known_nodes import (
    NodeCount,
    NodeTable,
    count_nodes,
    node_table,
    places_of_nodes,
)
from workflows.values.placement import FrozenTemplate


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformFacts:
    """A platform, merged with its pool: the values its tasks get, and what they may ask for."""

    name: str
    node_selector: Mapping[str, str]
    tolerations: tuple[Mapping[str, Any], ...]

    nvlink: bool
    """Whether its nodes have multi-node NVLink."""

    channels: ChannelCount | None
    """Of its nodes; None: without NVLink."""

    host_network_allowed: bool
    privileged_allowed: bool
    allowed_mounts: tuple[str, ...]
    default_mounts: tuple[str, ...]
    default_topology: DefaultTopology | None = None
    """For groups all of whose tasks with GPUs are on it; None: the pool's."""

    template: FrozenTemplate
    template_revisions: Mapping[str, int]

    nodes: int | None
    """None while no node of the cluster is known."""

    node_gpus: int | None
    """The most GPUs of one node; None likewise, and if it is not known how many a node gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds: the default, and the most that a workflow may ask for."""

    default: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFacts:
    """A pool as a submission sees it."""

    terms: SchedulingTerms
    """The facts of it that a group freezes."""

    now: datetime
    """When it was read."""

    queues: QueueSettings = field(default_factory=QueueSettings)

    start_barrier: BarrierSettings | None = None
    """None: it is off, or has no image."""

    shard_label: str = ""
    """The node label that divides the cluster's nodes into shards; empty: none does."""

    capabilities: Capabilities

    reachable: bool
    """Whether the cluster answered last."""

    scheduler_served: bool
    """Whether the cluster serves what its scheduler needs, as far as is known."""

    nodes: NodeTable
    """Those of the cluster, with the labels of the levels and of all node selectors."""

    places: Mapping[DomainPath, int]
    """How many of its nodes are in each domain; empty: none is known."""

    coverage: LabelCoverage
    """Of its levels."""

    nvlink: bool

    domain_for_every_group: bool
    """Whether, with NVLink, a group gets a ComputeDomain although none of its tasks claims a channel."""

    imex_dns_names: bool = True
    """Whether the driver's daemons find each other by name, and need no number of nodes."""

    free_preferences_after: int
    """Seconds; 0: preferences never give way."""

    platforms: Mapping[str, PlatformFacts]
    default_platform: str
    exec_timeout: Timeouts
    queue_timeout: Timeouts
    default_exit_actions: Mapping[str, str]

    default_topology: DefaultTopology | None = None
    """For groups that name no key; None: nothing."""

    recovery: RecoveryWords
    """All that the pool says of it, defaults included."""

    max_recoveries: int
    """The most that a workflow or a group may ask for."""

    max_grace_period: int
    """Seconds."""

    gpu_maximum: float | None
    """The pool's limit on GPUs; None: no limit."""

    shared_credentials: frozenset[str]
    """Secrets that tasks of everybody in this pool may read."""

    limits: WorkflowLimits


def pool_facts(pool: Pool) -> PoolFacts:
    """Read a pool that came with its backend, keys and platforms. Four queries."""
    backend, cluster = pool.backend, pool.backend.cluster_id or ""
    limits = workflow_limits()
    levels, own_id = pool_levels(pool), installation()
    capabilities = capabilities_of(backend)
    platform_rows, selector = _platform_rows(pool), node_selection(pool)
    selectors = [node_selection(pool, row) for row in platform_rows]
    labels = [level.label for level in levels]
    table = node_table(cluster, selectors=[selector, *selectors], labels=labels)
    places = places_of_nodes(
        cluster,
        table,
        selector=selector,
        levels=levels,
        paths=capabilities.by_paths,
    )
    return PoolFacts(
        terms=terms_of(pool, installation=own_id, queue=queue_of(pool, own_id), levels=levels),
        now=timezone.now(),
        queues=queues_of(backend),
        start_barrier=start_barrier_of(backend, default_image=settings.ENV.barrier_image),
        shard_label=backend.queue_settings.get("node_pool_label") or shard_label(backend.scheduler_type),
        capabilities=capabilities,
        reachable=conditions.status_of(backend.conditions, "Reachable") == "True",
        scheduler_served=conditions.status_of(backend.conditions, "SchedulerServed") != "False",
        nodes=table,
        places=places.counts,
        coverage=places.coverage,
        nvlink=pool.nvlink,
        domain_for_every_group=pool.compute_domains == Pool.DomainsFor.EVERY_GROUP,
        imex_dns_names=backend.imex_dns_names,
        free_preferences_after=pool.free_preferences_after,
        platforms=_platforms(pool, platform_rows, selectors, table),
        default_platform=pool.default_platform,
        exec_timeout=_timeouts(
            pool.default_exec_timeout,
            pool.max_exec_timeout,
            service=Timeouts(default=limits.default_exec_timeout, most=limits.max_exec_timeout),
        ),
        queue_timeout=_timeouts(
            pool.default_queue_timeout,
            pool.max_queue_timeout,
            service=Timeouts(default=limits.default_queue_timeout, most=limits.max_queue_timeout),
        ),
        default_exit_actions=pool.default_exit_actions,
        default_topology=default_of(pool.default_topology),
        recovery=words_of(pool.recovery),
        max_recoveries=pool.max_recoveries,
        max_grace_period=pool.max_grace_period_seconds,
        gpu_maximum=_gpu_maximum(pool),
        shared_credentials=frozenset(pool.shared_credentials),
        limits=limits,
    )


def _timeouts(default: str, most: str, *, service: Timeouts) -> Timeouts:
    """The pool's own values, where it has any, before the service's."""
    bound = parse_duration(most) if most else service.most
    return Timeouts(default=min(parse_duration(default) if default else service.default, bound), most=bound)


def _gpu_maximum(pool: Pool) -> float | None:
    gpu = pool.resources.get("gpu") or {}
    most = gpu.get("maximum", -1)
    return None if most < 0 else float(most)


def _platform_rows(pool: Pool) -> list[Platform]:
    """The pool's platforms; a pool without any has one without a name, itself."""
    rows = list(pool.platforms.all())
    return rows or [Platform(pool=pool, name="", applied_template=pool.applied_template)]


def _platforms(
    pool: Pool, rows: Sequence[Platform], selectors: Sequence[Mapping[str, str]], table: NodeTable
) -> dict[str, PlatformFacts]:
    """The pool's platforms, each with its selector, and with what is known of their nodes."""
    knows_nodes = len(table.nodes) > 0
    counts = count_nodes(
        pool.backend.cluster_id or "", table, selectors=selectors, scheduler=pool.backend.scheduler_type
    )
    observed_at = table.cluster.slices_observed_at
    return {
        row.name: PlatformFacts(
            name=row.name,
            node_selector=selector,
            tolerations=tuple(tolerations_of(pool, row)),
            nvlink=_has_nvlink(pool, row),
            channels=_channels(pool, row, count, observed_at) if pool.nvlink else None,
            host_network_allowed=row.host_network_allowed,
            privileged_allowed=row.privileged_allowed,
            allowed_mounts=tuple(row.allowed_mounts),
            default_mounts=tuple(row.default_mounts),
            default_topology=default_of(row.default_topology),
            template=_template(row),
            template_revisions=row.applied_template.get("revisions", {}),
            nodes=count.nodes if knows_nodes else None,
            node_gpus=count.most_gpus if knows_nodes else None,
        )
        for row, selector, count in zip(rows, selectors, counts, strict=True)
    }


def _has_nvlink(pool: Pool, platform: Platform) -> bool:
    return pool.nvlink if platform.nvlink is None else platform.nvlink


def _channels(
    pool: Pool, platform: Platform, count: NodeCount, observed_at: datetime | None
) -> ChannelCount | None:
    """The channels of a platform with NVLink; a query for the first names where no node offers one."""
    if not _has_nvlink(pool, platform):
        return None
    names: tuple[str, ...] = ()
    if count.nodes and not count.offering and observed_at:
        rows = Node.objects.filter(
            cluster_id=pool.backend.cluster_id, labels__contains=node_selection(pool, platform)
        )
        names = tuple(rows.order_by("name").values_list("name", flat=True)[:NAMED])
    return ChannelCount(
        nodes=count.nodes,
        offering=count.offering,
        since=count.since,
        observed_at=observed_at,
        names=names,
    )


def _template(row: Platform) -> FrozenTemplate:
    return FrozenTemplate(pod=frozen_pod(row), variables=row.applied_template.get("variables", {}))


def coverage_warnings(pool: Pool, facts: PoolFacts, gangs: Iterable[Gang]) -> list[str]:
    """Count and name the pool's nodes that the levels in the gangs' requirements exclude.

    At most one query for each such level; no warnings while no node is known.
    """
    gangs = tuple(gangs)
    needed = max((levels_named(gang, facts.terms.levels) for gang in gangs), key=len, default=())
    if not needed or not facts.places:
        return []
    keys = {r.key for gang in gangs for task in effective(gang).tasks for r in task.requirements}
    named = [level.label for level in needed if level.key in keys]
    if (
        facts.terms.external_topology or traits_of(facts.terms.scheduler_type).hides_unlabelled
    ):  # it is read whole
        needed, named = facts.terms.levels, [facts.terms.levels[-1].label]
    paths = facts.capabilities.by_paths
    counted = facts.coverage
    if unavailable_levels := unavailable(counted.only([level.label for level in needed] if paths else named)):
        return [unavailable_levels]
    coverage = counted.only(named)
    levels = tuple(_with_names(pool, facts, level) for level in coverage.levels)
    return uncovered(replace(coverage, levels=levels))


def _with_names(pool: Pool, facts: PoolFacts, coverage: LevelCoverage) -> LevelCoverage:
    """A level's coverage with the names of the first nodes that it hides."""
    if not coverage.hidden:
        return coverage
    lacking, rank = Q(), facts.terms.levels.index(coverage.level)
    paths = facts.capabilities.by_paths
    for level in facts.terms.levels[0 if paths else rank : rank + 1]:
        lacking |= ~Q(labels__has_key=level.label)
    rows = pool_nodes(pool).filter(lacking).order_by("name").values_list("name", flat=True)
    return replace(coverage, hidden_names=tuple(rows[:NAMED_NODES]))
