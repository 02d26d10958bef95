"""What the pages of a cluster show of groups that others submitted, as values.

The map is that of all nodes of the cluster in the domains of the selected group's own levels. It is drawn for
callers who may read the groups' names, and for nobody else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pages.map.content import OpenedMap, drawn_levels, opened_map
from pages.map.selection import MapSelection
from pages.map.set_rooms import narrowest_set, rooms_on_map
from pages.map.tree import Chosen, PlacePath
from pages.workflows.labels import Badge
from pages.workflows.verdicts import VerdictView, verdict_view
from pools.clusters.capabilities import capabilities_at
from pools.models import Backend
from pools.selectors import Caller, pool_levels
from pools.values.freshness import Freshness
from scheduling.fit.usable import PodKind, as_usable, selected_labels
from scheduling.sentences import agree, count_of
from scheduling.topology.levels import Levels
from scheduling.topology.requirements import describe
from workflows.feasibility.capacity.node_snapshot import observed_nodes
from workflows.feasibility.others.judged import JudgedGang, WaitingOthers


@dataclass(frozen=True, slots=True, kw_only=True)
class OthersLine:
    """A group of others that waits. ``owner`` is what it belongs to, with its kind."""

    namespace: str
    name: str
    owner: str
    queue: str
    priority: str
    tasks: int
    gpus: int
    minimum: int
    since: datetime | None
    badge: Badge
    sentence: str

    @property
    def path(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def size(self) -> str:
        return f"{count_of(self.tasks, 'task')}, {count_of(self.gpus, 'GPU')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OthersContent:
    """All that wait. ``counted`` says how many do; ``lines`` is None where the caller may not read names."""

    backend: str
    scheduler: str
    counted: str
    problem: str
    lines: tuple[OthersLine, ...] | None
    freshness: Freshness
    before: int | None
    after: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OthersGroupContent:
    """One at length. ``judgement`` is the sentence of the verdict, ``report`` the words of the scheduler."""

    backend: str
    line: OthersLine
    faults: tuple[str, ...]
    judgement: str
    report: str
    verdict: VerdictView | None
    not_examined: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMap:
    """The map of the cluster for the group at ``selected``; ``drawn`` is its set that is compared."""

    view: OpenedMap
    selected: str
    drawn: str


def others_content(page: WaitingOthers, *, offset: int, limit: int) -> OthersContent:
    more = f"; {page.omitted} more are not kept" if page.omitted else ""
    return OthersContent(
        backend=page.backend.name,
        scheduler=page.backend.scheduler_type,
        counted=f"{count_of(page.count, 'group')} of others {agree(page.count, 'waits', 'wait')}{more}",
        problem=page.problem,
        lines=tuple(map(line_of, page.gangs)) if page.names_shown else None,
        freshness=page.freshness,
        before=max(0, offset - limit) if offset else None,
        after=offset + limit if page.more_entries else None,
    )


def group_content(backend: Backend, judged: JudgedGang) -> OthersGroupContent:
    gang = judged.others.gang
    return OthersGroupContent(
        backend=backend.name,
        line=line_of(judged),
        faults=judged.faults,
        judgement=judged.report.sentence,
        report=gang.report,
        verdict=verdict_view(judged.report),
        not_examined=tuple(entry.message for entry in gang.unread),
    )


def line_of(judged: JudgedGang) -> OthersLine:
    gang = judged.others.gang
    kind, owner = gang.owner
    return OthersLine(
        namespace=gang.namespace,
        name=gang.name,
        owner=f"{kind} {owner}" if owner else judged.others.kind,
        queue=gang.queue,
        priority=gang.priority,
        tasks=gang.tasks,
        gpus=gang.gpus,
        minimum=gang.minimum,
        since=judged.others.since,
        badge=_badge(judged),
        sentence=judged.sentence,
    )


def _badge(judged: JudgedGang) -> Badge:
    if judged.faults:
        return Badge("", "Waits whatever is free", "✕", "bad")
    verdict = verdict_view(judged.report)
    if verdict is None:
        return Badge("", "No verdict", "?", "")
    return Badge("", verdict.word, verdict.symbol, verdict.tone)


def selected_of(gangs: Sequence[JudgedGang], path: str) -> JudgedGang | None:
    """The group at a path, else the oldest that lacks a place, else the oldest that has levels."""
    by_path = {line_of(judged).path: judged for judged in gangs}
    lacking = (judged for judged in gangs if judged.report.verdict and judged.report.verdict.blocked)
    return by_path.get(path) or next(lacking, next(iter(gangs), None))


def cluster_map(backend: Backend, judged: JudgedGang | None, *, user: Caller, path: PlacePath) -> ClusterMap:
    """The nodes of the backend's cluster, with the room that each domain has for a group."""
    gang = judged.others.gang if judged else None
    demand = gang.demand if gang else None
    kinds = tuple(
        PodKind(selector=dict(each.selector), tolerations=[dict(entry) for entry in each.tolerations])
        for each in dict.fromkeys(demand.demands.values() if demand else ())
    )
    levels = (gang.levels if gang else ()) or _usual_levels(backend)
    cluster = str(backend.cluster_id or "")
    observed = observed_nodes(
        cluster,
        selectors=[{}],
        levels=levels,
        capabilities=capabilities_at(backend.scheduler_type, backend.scheduler_version),
        labels=selected_labels(kinds),
    )
    boxes = drawn_levels(levels)
    verdict = judged.report.verdict if judged else None
    node = narrowest_set(verdict, demand) if verdict and demand else None
    rooms = rooms_on_map(observed.snapshot, demand, node, levels=boxes) if demand and node else {}
    return ClusterMap(
        view=opened_map(
            as_usable(observed.snapshot, kinds),
            name=backend.name,
            cluster=cluster,
            levels=boxes,
            kinds=kinds,
            selection=MapSelection(domains={at: Chosen(room=room) for at, room in rooms.items()}),
            user=user,
            path=path,
        ),
        selected=line_of(judged).path if judged else "",
        drawn=describe(node.path) if node and rooms else "",
    )


def _usual_levels(backend: Backend) -> Levels:
    """The levels of a pool, for a group that names none."""
    pool = backend.pools.order_by("name").first()
    return pool_levels(pool) if pool else ()
