"""Read the workflow that is selected on a map: where its sets are, or which domains are too small for them.

Placed sets are judged by ``scheduling.fit.outcome``, by the labels their nodes have now. Waiting sets are
judged by ``scheduling.fit.verdict``, for the first few groups: a verdict on 5,000 nodes costs a few tenths of
a second. Each set with tasks on nodes gets a letter; the picture and the list use it.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from pages.map.selection import MapGroup, MapWorkflow, PlacedSetView, WaitingSetView
from pages.map.set_rooms import narrowest_set, rooms_on_map
from pages.map.tree import Chosen, Mark, PlacePath, SetRoom
from pages.nearest_domains import nearest_domains
from pages.short_names import domain_names
from pools.clusters.capabilities import capabilities_at
from pools.models import Node
from pools.selectors import Caller, may_explain
from scheduling.capabilities import Capabilities
from scheduling.fit.outcome import PlacementOutcome, SetOutcome
from scheduling.fit.verdict import Answer, SetVerdict, Verdict, judge
from scheduling.gang.tree import ConstraintTree
from scheduling.sentences import count_of
from scheduling.topology.levels import DomainPath, Levels
from scheduling.topology.requirements import Gang, GangTask, Requirement, SetPath, describe
from workflows.feasibility.capacity.node_snapshot import (
    ObservedNodes,
    demand_of,
    observed_nodes,
    selectors_of,
)
from workflows.feasibility.placement.placed import outcomes_on
from workflows.feasibility.verdict.report import holders_of
from workflows.feasibility.verdict.sentences import redacted, sentence
from workflows.lifecycle.statuses import TERMINAL
from workflows.models import Task, TaskGroup, Workflow
from workflows.selectors import group_values, names_known_to
from workflows.values.placement import GroupPlacement, GroupValues

MOST_GROUPS = 12
MOST_VERDICTS = 3
MOST_SETS = 40
MOST_DOMAINS = 6
"""Limits of the lists; entries beyond them are counted."""

Lettered = tuple[SetPath, str]
"""A set of a gang at one level: its path and the level's key."""


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    node: str
    task: GangTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The source of the map: the nodes that ``selection`` matches in a cluster, read once.

    ``levels`` are those that make boxes, ``places`` the domain values of each node by name. ``user`` is the
    reader, who gets no names of workflows that they may not list.
    """

    user: Caller
    cluster: str
    selection: Mapping[str, str]
    observed: ObservedNodes
    levels: Levels
    places: Mapping[str, DomainPath]


def map_workflow(workflow: Workflow, *, ground: Ground, drawn: str) -> MapWorkflow:
    """Describe a workflow on a map, without its groups in another cluster.

    ``drawn`` names the group whose waiting set is shown in the picture; empty: the first that waits.
    """
    live = workflow.groups.filter(released_at=None, backend__cluster_id=ground.cluster).exclude(
        status__in=[str(status) for status in TERMINAL]
    )
    groups = list(live.select_related("backend").order_by("position")[: MOST_GROUPS + 1])
    rows = _rows(groups[:MOST_GROUPS])
    marker = _GroupMarker(ground, _labels(ground.cluster, rows))
    map_groups = [marker.group(group, rows.get(group.pk, ()), drawn=drawn) for group in groups[:MOST_GROUPS]]
    return MapWorkflow(
        name=workflow.name,
        status=workflow.status,
        pool=workflow.pool_name,
        groups=tuple(map_groups),
        more_groups=live.count() - MOST_GROUPS if len(groups) > MOST_GROUPS else 0,
        marks={node: tuple(marks.values()) for node, marks in marker.marks.items()},
        domains={
            at: Chosen(sets=tuple(marker.placed.get(at, {}).values()), room=marker.rooms.get(at))
            for at in marker.placed.keys() | marker.rooms.keys()
        },
    )


def _rows(groups: Sequence[TaskGroup]) -> dict[UUID, list[_Row]]:
    """The latest try of each task, with what it requires. One query."""
    columns = ("group_id", "name", "node_name", "spec__gpu", "spec__requirements")
    tasks = Task.objects.filter(group__in=groups, latest=True).order_by("position").values_list(*columns)
    rows_by_group: dict[UUID, list[_Row]] = defaultdict(list)
    for group, name, node, gpus, requirements in tasks:
        parsed = tuple(Requirement(**requirement) for requirement in requirements or ())
        rows_by_group[group].append(_Row(name, node, GangTask(name, gpus or 0, parsed)))
    return rows_by_group


def _labels(cluster: str, rows: Mapping[UUID, Sequence[_Row]]) -> dict[str, Mapping[str, str]]:
    """Labels of the nodes that have tasks. One query."""
    names = {row.node for group in rows.values() for row in group if row.node}
    nodes = Node.objects.filter(cluster_id=cluster, name__in=names).order_by()
    return dict(nodes.values_list("name", "labels"))


class _GroupMarker:
    """Describe group after group, and give each set its letter."""

    def __init__(self, ground: Ground, labels: Mapping[str, Mapping[str, str]]) -> None:
        self.ground, self.labels = ground, labels
        self.marks: dict[str, dict[int, Mark]] = defaultdict(dict)
        self.placed: dict[tuple[int, PlacePath], dict[int, Mark]] = defaultdict(dict)
        self.rooms: dict[tuple[int, PlacePath], SetRoom] = {}
        self._letters = 0
        self._verdicts = 0

    def group(self, group: TaskGroup, rows: Sequence[_Row], *, drawn: str) -> MapGroup:
        placement = GroupPlacement.from_json(group.placement)
        placed_rows = [row for row in rows if row.node]
        placed_sets = self._placed_sets(group, placement, rows) if placed_rows else []
        map_group = MapGroup(
            name=group.name,
            status=group.status,
            reason=group.waiting_reason,
            placed=tuple(placed_sets[:MOST_SETS]),
            more_sets=max(0, len(placed_sets) - MOST_SETS),
        )
        if len(placed_rows) == len(rows):
            return map_group
        return self._waiting(group, placement, map_group, drawn=drawn)

    def _placed_sets(
        self, group: TaskGroup, placement: GroupPlacement, rows: Sequence[_Row]
    ) -> list[PlacedSetView]:
        gang = Gang(group.name, tuple(row.task for row in rows))
        nodes = {row.name: row.node for row in rows if row.node}
        tree, outcomes = outcomes_on(gang, placement, nodes, self.labels)
        tasks = _tasks_by_set(tree)
        lettered: dict[Lettered, Mark] = {}
        placed = []
        for outcome in outcomes:
            members = [name for name in tasks[outcome.path, outcome.level] if name in nodes]
            mark = lettered[outcome.path, outcome.level] = self._mark(len(members))
            self._stand_in_domains(
                mark, outcome.level, [nodes[name] for name in members], placement.terms.levels
            )
            placed.append(_placed_set_view(outcome, mark, len(members)))
        return placed + self._on_nodes(tree, nodes, lettered)

    def _on_nodes(
        self,
        tree: ConstraintTree,
        nodes: Mapping[str, str],
        lettered: Mapping[Lettered, Mark],
    ) -> list[PlacedSetView]:
        """Mark the nodes, each task by its narrowest set; tasks of no set make a last one."""
        narrowest: dict[str, Mark] = {}
        for node in tree.root.walk():
            for member in sorted(node.members, key=lambda member: member.rank):
                mark = lettered[member.path, tree.levels[member.rank].key]
                narrowest.update(dict.fromkeys((task.name for task in node.all_tasks()), mark))
        free = [name for name in nodes if name not in narrowest]
        unbound = []
        if free:
            mark = self._mark(len(free))
            narrowest.update(dict.fromkeys(free, mark))
            words = "the rest of its tasks" if lettered else "all its tasks"
            unbound = [_unbound(mark, f"{words}, bound to no domain", {nodes[name] for name in free})]
        for name, at in nodes.items():
            mark = narrowest[name]
            earlier = self.marks[at].get(mark.hue)
            self.marks[at][mark.hue] = Mark(mark.letter, mark.hue, (earlier.tasks if earlier else 0) + 1)
        return unbound

    def _stand_in_domains(self, mark: Mark, key: str, nodes: Sequence[str], levels: Levels) -> None:
        """Count a set's tasks in the domains that the map has for its level."""
        label = next(level.label for level in levels if level.key == key)
        rank = next((at for at, level in enumerate(self.ground.levels) if level.label == label), None)
        if rank is None:
            return
        for node in nodes:
            values = self.ground.places.get(node, (None,))[: rank + 1]
            if None in values:
                continue
            at = (rank, tuple(value for value in values if value is not None))
            earlier = self.placed[at].get(mark.hue)
            self.placed[at][mark.hue] = Mark(mark.letter, mark.hue, (earlier.tasks if earlier else 0) + 1)

    def _mark(self, tasks: int) -> Mark:
        self._letters += 1
        return Mark(letters(self._letters - 1), self._letters - 1, tasks)

    def _waiting(
        self, group: TaskGroup, placement: GroupPlacement, map_group: MapGroup, *, drawn: str
    ) -> MapGroup:
        """The verdict on a group that waits, for the first few and for the selected one."""
        is_selected = drawn == group.name
        if self._verdicts >= MOST_VERDICTS and not is_selected:
            return map_group
        self._verdicts += 1
        values = group_values(group, placement)
        capabilities = capabilities_at(placement.terms.scheduler_type, placement.terms.scheduler_version)
        observed = self._observed(values, capabilities, has_none=not map_group.placed)
        if not observed.snapshot.nodes:
            return map_group
        demand = demand_of(values, capabilities=capabilities)
        unredacted = judge(observed.snapshot, demand)
        verdict = redacted(
            unredacted,
            names_known_to(self.ground.user, holders_of(unredacted)),
            names_others=may_explain(self.ground.user, placement.terms.backend),
        )
        node = narrowest_set(verdict, demand)
        shows = node is not None and (is_selected or (not drawn and not self.rooms))
        if node and shows:
            self.rooms |= rooms_on_map(observed.snapshot, demand, node, levels=self.ground.levels)
        return replace(
            map_group,
            answer=verdict.answer.value,
            sentence=sentence(verdict, observed.freshness),
            waiting=tuple(_waits(verdict)),
            drawn=describe(node.path) if node and shows else "",
        )

    def _observed(self, values: GroupValues, capabilities: Capabilities, *, has_none: bool) -> ObservedNodes:
        """The nodes for a group's tasks, without its own usage; the map's nodes where they are the same."""
        placement, selectors = values.placement, selectors_of([values])
        cluster = placement.terms.cluster_uid or self.ground.cluster
        own = self.ground.observed
        alike = (
            (cluster, selectors) == (self.ground.cluster, [self.ground.selection])
            and placement.terms.levels == own.snapshot.levels
            and capabilities.by_paths == own.snapshot.paths
        )
        if has_none and alike:
            return own
        return observed_nodes(
            cluster,
            selectors=selectors,
            levels=placement.terms.levels,
            capabilities=capabilities,
            without=[values.uuid],
        )


def _tasks_by_set(tree: ConstraintTree) -> dict[Lettered, list[str]]:
    return {
        (member.path, tree.levels[member.rank].key): [task.name for task in node.all_tasks()]
        for node in tree.root.walk()
        for member in node.members
    }


_TONES = {
    PlacementOutcome.MATCH: "good",
    PlacementOutcome.DEGRADED: "warn",
    PlacementOutcome.VIOLATION: "bad",
}


def _placed_set_view(outcome: SetOutcome, mark: Mark, tasks: int) -> PlacedSetView:
    domains = sorted(outcome.domains.items(), key=lambda entry: (-entry[1], entry[0]))
    names = domain_names([path for path, _count in domains[:MOST_DOMAINS]])
    return PlacedSetView(
        mark=mark,
        words=describe(outcome.path),
        tasks=tasks,
        outcome=outcome.outcome.words,
        tone=_TONES[outcome.outcome],
        required=outcome.required,
        domains=tuple(zip(names, dict(domains).values(), strict=False)),
        more=max(0, len(domains) - MOST_DOMAINS),
        outside=outcome.outside,
    )


def _unbound(mark: Mark, words: str, nodes: set[str]) -> PlacedSetView:
    return PlacedSetView(
        mark=mark,
        words=f"{words}, on {count_of(len(nodes), 'node')}",
        tasks=mark.tasks,
        outcome="",
        tone="",
        required=False,
        domains=(),
        more=0,
        outside=0,
    )


def _waits(verdict: Verdict) -> Iterator[WaitingSetView]:
    if verdict.answer is Answer.NOW:
        return
    for set_verdict in verdict.sets:
        if set_verdict.is_blocked or set_verdict.key is not None:
            yield WaitingSetView(
                words=_set_words(set_verdict),
                tasks=set_verdict.tasks,
                key=set_verdict.key or "pool",
                domains=set_verdict.domains,
                fit_now=set_verdict.fit_now,
                nearest=nearest_domains(set_verdict.nearest),
            )


def _set_words(verdict: SetVerdict) -> str:
    return (
        f"{describe(verdict.path)} and {verdict.alike - 1} alike"
        if verdict.alike > 1
        else describe(verdict.path)
    )


def letters(number: int) -> str:
    """A, B, ... Z, AA, AB, ..."""
    first, last = divmod(number, 26)
    return (letters(first - 1) if first else "") + chr(ord("A") + last)
