"""A snapshot of nodes, and the demand of a task group on them, from rows and frozen values.

One query each: the nodes, with only those labels that are needed (``known_nodes``); the live tasks on them;
the usage of other tenants' pods (``known_usage`` has both). A group holds its room until its execution
timeout at the latest; the end of other tenants' pods is unknown.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from uuid import UUID

from pools.values.freshness import Freshness
from scheduling.backends.registry import traits_of
from scheduling.capabilities import Capabilities, Capability
from scheduling.fit import snapshot as fit
from scheduling.fit.demand import Demand
from scheduling.fit.gang_demand import GangDemand
from scheduling.gang.checks import chooses_domains, slices_alone
from scheduling.gang.set_order import ordered
from scheduling.gang.slices import required_around, without_preferences_around
from scheduling.gang.stages import at_stage, stage_begins
from scheduling.gang.tree import build_tree, grow
from scheduling.kubernetes_syntax import GPU
from scheduling.topology.levels import Levels
from scheduling.topology.requirements import required_clique
from workflows.feasibility.capacity.known_nodes import AMOUNTS, NodeTable, node_table, selected_nodes
from workflows.feasibility.capacity.known_usage import NO_USAGE, ClusterUsage, cluster_usage
from workflows.manifests.requests import Requests, requests_of
from workflows.values.amounts import STORAGE
from workflows.values.placement import GroupPlacement, GroupValues, TaskPlacement, shape_of


@dataclass(frozen=True, slots=True)
class ObservedNodes:
    """A snapshot and how fresh it is.

    ``others_known`` False: other tenants' pods cannot be followed, so their usage counts as free. ``usage``
    is that of the whole cluster, of the groups ``without`` too.
    """

    snapshot: fit.Snapshot
    freshness: Freshness
    others_known: bool
    usage: ClusterUsage = NO_USAGE


def observed_nodes(
    cluster: str,
    *,
    selectors: Sequence[Mapping[str, str]],
    levels: Levels,
    capabilities: Capabilities,
    without: Sequence[UUID] = (),
    labels: Iterable[str] = (),
    table: NodeTable | None = None,
) -> ObservedNodes:
    """The nodes of a cluster that one of the selectors matches, with the usage of each.

    The usage of the groups ``without`` counts as free: the verdict is on them. ``labels`` are read beside
    those of levels and selectors. ``table`` is that of the cluster with all of them, if it was read before.
    """
    if table is None:
        label_names = {level.label for level in levels}.union(labels)
        table = node_table(cluster, selectors=selectors, labels=label_names)
    others_known = table.cluster.others_known
    usage = cluster_usage(cluster, others_known=others_known)
    snapshot = selected_nodes(
        cluster,
        table,
        selectors=selectors,
        levels=levels,
        paths=capabilities.by_paths,
        usage=usage,
        scheduler=capabilities.scheduler,
    )
    snapshot = snapshot.with_usage(usage.without(without).differing(usage))
    return ObservedNodes(snapshot, table.cluster.freshness, others_known, usage)


def demand_of(
    group: GroupValues, *, capabilities: Capabilities, with_preferences: bool = False
) -> GangDemand:
    """The demand of a group at its current stage, with those preferences that have not given way.

    ``with_preferences``: also those that are node affinity of pods alone, for which no scheduler waits.
    """
    gang, levels = group.gang, group.placement.terms.levels
    traits = traits_of(group.placement.terms.scheduler_type)
    ignored = Capability.TOPOLOGY_PREFERRED not in capabilities or (
        traits.prefers_by_affinity and not with_preferences
    )
    tree = grow(gang, levels, ignore_preferred=True) if ignored else build_tree(gang, levels)
    if slices_alone(capabilities):  # others were refused, or their preference is ignored
        tree = replace(tree, root=without_preferences_around(tree.root))
    count = 1 if ignored else len(stage_begins(gang))
    form = group.form
    tree = ordered(tree, form.order)
    demand = GangDemand(
        tree if ignored else at_stage(tree, form.stage),
        _demands(group),
        counts_largest=traits.counts_largest,
        last=at_stage(tree, count - 1) if form.stage < count - 1 else None,
        cut=len(levels) - 1 if levels and _is_read_whole(group.placement) else None,
        is_orderable=traits.orders_sets,
        is_pinnable=traits.pins_sets or (chooses_domains(capabilities) and bool(required_around(tree.root))),
        is_best_fit=traits.fits_best,
    )
    return demand.at_preference_levels(form.preference_levels).pinned(form.pins)


def _is_read_whole(placement: GroupPlacement) -> bool:
    """Whether each constraint sees only nodes with the labels of all levels."""
    return (
        bool(placement.terms.external_topology) or traits_of(placement.terms.scheduler_type).hides_unlabelled
    )


def _demands(group: GroupValues) -> dict[str, Demand]:
    """Each task's demand by its name; tasks alike in all that counts are read once."""
    frozen = group.placement
    least_gpus = (
        frozen.gpus_beside_claims(task.placement for task in group.tasks) if frozen.claim_gpus else {}
    )
    by_values: dict[str, Demand] = {}
    demands: dict[str, Demand] = {}
    for task in group.tasks:
        placement = task.placement
        gpus = least_gpus.get(shape_of(placement), 0)
        clique = required_clique(placement.requirements, frozen.terms.levels)
        key = repr((gpus, clique, *(getattr(placement, name) for name in _COUNTED)))
        if key not in by_values:
            template = frozen.templates.get(placement.platform)
            requests = requests_of(
                placement,
                template,
                submitted_by=frozen.submitted_by,
                has_barrier=frozen.start_barrier is not None and len(group.tasks) > 1,
            )
            by_values[key] = _demand(placement, requests, least_gpus=gpus, clique=clique)
        demands[task.name] = by_values[key]
    return demands


_COUNTED = (
    "platform",
    "cpu",
    "gpu",
    "memory",
    "storage",
    "node_selector",
    "tolerations",
    "nodes_excluded",
    "claims_channel",
)


def _demand(placement: TaskPlacement, requests: Requests, *, least_gpus: int, clique: str) -> Demand:
    return Demand.of(
        fit.amounts(
            gpu=max(least_gpus, int(requests.get(GPU, 0))),
            cpu=ceil(requests.get("cpu", 0) * 1000),
            memory=ceil(requests.get("memory", 0)),
            storage=ceil(requests.get(STORAGE, 0)),
            pods=1,
            channels=int(placement.claims_channel),
        ),
        selector=placement.node_selector,
        tolerations=placement.tolerations,
        excluded=placement.nodes_excluded,
        clique=clique,
        others={name: ceil(amount) for name, amount in requests.items() if name not in AMOUNTS},
    )


def selectors_of(groups: Iterable[GroupValues]) -> list[Mapping[str, str]]:
    """Each distinct node selection of the groups' tasks."""
    selectors = {
        tuple(sorted(task.placement.node_selector.items())) for group in groups for task in group.tasks
    }
    return [dict(selector) for selector in sorted(selectors)]
