"""Everything on the map of a pool, from rows: a fixed number of queries, none of them to a cluster.

A verdict reads the same nodes, free amounts and holders, so the picture and the verdict never contradict
each other. Tasks are read by name for the nodes that are drawn one by one: a few hundred at most. The page
leaves out the name of a workflow that the caller may not list.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pages.map.layout import BoxKind, Picture, detail, lay_out
from pages.map.selection import NOTHING_SELECTED, MapSelection, MapWorkflow
from pages.map.tree import LocatedNode, MapNode, MapPlace, PlacePath, Shut, Use, grow, peopled, trail
from pages.map.workflow import Ground, map_workflow
from pools.models import Pool
from pools.pod_templates.applied import node_selection, pod_kinds
from pools.selectors import Caller, pool_levels
from scheduling.fit.snapshot import OTHERS, FitNode, Snapshot
from scheduling.fit.usable import TAINTED, PodKind, refusal
from scheduling.natural_order import natural
from scheduling.nodes.taints import taint_name
from scheduling.sentences import plain_listing
from scheduling.topology.levels import HOSTNAME_LABEL, DomainPath, Levels, domains_of
from web.access.rights import grants_of
from web.policy import Action
from workflows import selectors
from workflows.feasibility.placement.fragmentation import (
    PoolFragments,
    fragments_of,
    observed_pool_nodes,
    usable_of,
)
from workflows.feasibility.verdict.sentences import ANOTHER_WORKFLOW
from workflows.lifecycle.statuses import LIVE_ORDER, WORKFLOW_TERMINAL, WorkflowStatus
from workflows.models import Task, Workflow
from workflows.nodes.suspects import suspects_of

MOST_LISTED = 200
"""Workflows to choose from, the newest."""

MOST_TASKS = 3
"""Tasks of one workflow on one node that are named."""

_GPU, _CPU = 0, 1
_LIVE = tuple(sorted(set(WorkflowStatus) - WORKFLOW_TERMINAL))


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedMap:
    """The picture of the open place of a map.

    ``trail`` leads from the whole map to the place. ``lost``: the requested place does not exist any more.
    """

    picture: Picture = field(repr=False)
    trail: tuple[MapPlace, ...] = field(repr=False)
    lost: bool
    nodes: int

    @property
    def place(self) -> MapPlace:
        return self.trail[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapContent(OpenedMap):
    """A pool's map.

    ``listed`` are names of live workflows to select from, None if the caller may not list any.
    """

    pool: Pool
    fragments: PoolFragments
    listed: tuple[str, ...] | None
    chosen: MapWorkflow | None


def map_content(
    pool: Pool, *, user: Caller, path: PlacePath, workflow: Workflow | None, group: str
) -> MapContent:
    """Draw a pool, which came with its keys and platforms, from the place at ``path`` down.

    ``group`` names the group of the workflow whose waiting set is compared with the domains.
    """
    kinds = pod_kinds(pool)
    observed = observed_pool_nodes(pool, kinds)
    levels = drawn_levels(pool_levels(pool))
    places = _Places.of(observed.snapshot, levels)
    usable = usable_of(observed, kinds)
    chosen = None
    if workflow:
        ground = Ground(
            user=user,
            cluster=pool.backend.cluster_id or "",
            selection=node_selection(pool),
            observed=observed,
            levels=levels,
            places=places.by_node(observed.snapshot),
        )
        chosen = map_workflow(workflow, ground=ground, drawn=group)
    opened = opened_map(
        usable.snapshot,
        name=pool.name,
        cluster=pool.backend.cluster_id or "",
        levels=levels,
        kinds=kinds,
        selection=chosen or NOTHING_SELECTED,
        user=user,
        path=path,
    )
    return MapContent(
        pool=pool,
        picture=opened.picture,
        trail=opened.trail,
        lost=opened.lost,
        nodes=opened.nodes,
        fragments=fragments_of(usable),
        listed=_listed(pool, user=user),
        chosen=chosen,
    )


def opened_map(
    snapshot: Snapshot,
    *,
    name: str,
    cluster: str,
    levels: Levels,
    kinds: Sequence[PodKind],
    selection: MapSelection,
    user: Caller,
    path: PlacePath,
) -> OpenedMap:
    """Draw nodes of a cluster, closed where they are for these kinds of pods.

    ``levels`` are those of the snapshot that make boxes, ``name`` is that of all of it.
    """
    places = _Places.of(snapshot, levels)
    nodes = _located_nodes(cluster, snapshot.nodes, places, selection, kinds=kinds, user=user)
    keys = [level.key for level in levels]
    tree = grow(nodes, pool=name, keys=keys, chosen_in=selection.in_domain)
    places_on_path = trail(tree, path)
    opened = places_on_path or (tree,)
    place = _with_users(opened[-1], cluster, user=user)
    return OpenedMap(
        picture=lay_out(place),
        trail=(*opened[:-1], place),
        lost=not places_on_path and path != ("",),
        nodes=len(snapshot.nodes),
    )


def drawn_levels(levels: Levels) -> Levels:
    """The levels that make boxes: a level of single nodes is the nodes themselves."""
    return levels[:-1] if levels and levels[-1].label == HOSTNAME_LABEL else levels


@dataclass(frozen=True, slots=True)
class _Places:
    """The nodes of a snapshot in the natural order of their names, and the domain of each.

    Neither changes with what is in use, so both are kept with the snapshot from which others derive.
    """

    order: tuple[int, ...]
    domains: tuple[DomainPath, ...]

    @classmethod
    def of(cls, snapshot: Snapshot, levels: Levels) -> "_Places":
        """``levels`` are those that the map draws of the snapshot's."""
        base = snapshot.base or snapshot
        places = base.derived.get(cls)
        if not isinstance(places, cls):
            nodes = base.nodes
            order = sorted(range(len(nodes)), key=lambda at: natural(nodes[at].name))
            places = cls(tuple(order), tuple(domains_of(node.labels, levels) for node in nodes))
            base.derived[cls] = places
        return places

    def by_node(self, snapshot: Snapshot) -> dict[str, DomainPath]:
        return {node.name: domain for node, domain in zip(snapshot.nodes, self.domains, strict=True)}


def _located_nodes(
    cluster: str,
    nodes: Sequence[FitNode],
    places: _Places,
    selection: MapSelection,
    *,
    kinds: Sequence[PodKind],
    user: Caller,
) -> list[LocatedNode]:
    """The nodes in the order of the map."""
    holder_names = _holder_names(nodes, user=user)
    suspects = suspects_of(cluster)
    located = []
    for at in places.order:
        node = nodes[at]
        refused = refusal(node.taints, node.labels, kinds)
        free = node.free_of(_GPU)
        map_node = MapNode(
            name=node.name,
            gpus=node.gpus,
            free=free,
            use=_use(node, free_gpus=free),
            shut=_CLOSED[node.closed],
            taint=", ".join(map(taint_name, refused)),
            suspect=node.name in suspects,
            gpu_note=node.gpu_note,
            marks=selection.marks.get(node.name, ()),
        )
        holders = {holder_names[holding.holder] for holding in node.holdings}
        located.append(LocatedNode(map_node, places.domains[at], tuple(sorted(holders))))
    return located


def _holder_names(nodes: Sequence[FitNode], *, user: Caller) -> dict[str, str]:
    """The map's name for each holder: by its name, if the caller may list it."""
    names = {holding.holder for node in nodes for holding in node.holdings}
    listable = {*selectors.names_known_to(user, names), OTHERS}
    return {name: name if name in listable else ANOTHER_WORKFLOW for name in names}


def _use(node: FitNode, *, free_gpus: int) -> Use:
    """The use of its GPUs; of a node without any, that of its processors, or by any task."""
    if node.gpus:
        offered, free, is_held = node.gpus, free_gpus, False
    else:
        offered, free, is_held = node.allocatable[_CPU], node.free_of(_CPU), bool(node.holdings)
    if free == offered and not is_held:
        return Use.FREE
    return Use.PART if free else Use.FULL


_CLOSED = {"": Shut.NO, "cordoned": Shut.CORDONED, "not ready": Shut.NOT_READY, TAINTED: Shut.TAINTED}


def _with_users(place: MapPlace, cluster: str, *, user: Caller) -> MapPlace:
    """The place with the tasks on each of its nodes, if nodes are drawn. One or two queries."""
    if detail(place)[0] is BoxKind.BAR and place.inside:
        return place
    names = list(_nodes(place))
    rows = (
        Task.objects.filter(
            node_name__in=names,
            status__in=LIVE_ORDER,
            group__released_at=None,
            group__backend__cluster_id=cluster,
        )
        .order_by("group__workflow__name", "group__position", "position")
        .values_list("node_name", "group__workflow__name", "name")
    )
    by_node: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for node, workflow, task in rows:
        by_node[node][workflow].append(task)
    known_names = selectors.names_known_to(user, {workflow for on in by_node.values() for workflow in on})
    users = {
        node: tuple(_user(name if name in known_names else None, tasks) for name, tasks in on.items())
        for node, on in by_node.items()
    }
    return peopled(place, users)


def _nodes(place: MapPlace) -> Iterable[str]:
    yield from (node.name for node in place.nodes)
    for inner in place.inside:
        yield from _nodes(inner)


def _user(workflow: str | None, tasks: Sequence[str]) -> str:
    if workflow is None:
        return ANOTHER_WORKFLOW
    return f"{workflow}: {plain_listing(tasks, limit=MOST_TASKS)}"


def _listed(pool: Pool, *, user: Caller) -> tuple[str, ...] | None:
    if not grants_of(user).allows(Action.WORKFLOW_LIST, f"pool/{pool.name}"):
        return None
    workflow_filter = selectors.WorkflowFilter(pools=(pool.name,), statuses=tuple(map(str, _LIVE)))
    page = selectors.workflow_page(workflow_filter, user=user, limit=MOST_LISTED, offset=0, order="DESC")
    return tuple(workflow.name for workflow in page.workflows)
