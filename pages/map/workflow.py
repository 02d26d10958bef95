"""The workflow that was chosen on a map: where its sets landed, or which domains are too small for them.

What stands is judged as ``scheduling.fit.outcome`` does, by the labels its nodes carry now; what waits by
``scheduling.fit.verdict``, set by set, for the first few groups: a verdict on 5,000 nodes costs some tenths
of a second. Each set with tasks on nodes gets a letter, by which the picture and the list name it.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from pages.map.tree import Chosen, Mark, Path, Room
from pools.clusters.capabilities import capabilities_at
from pools.models import Node
from pools.selectors import Caller
from scheduling.capabilities import Capabilities, Capability
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.outcome import PlacementOutcome, SetOutcome
from scheduling.fit.verdict import Answer, DomainCapacity, SetVerdict, Verdict, judge, rooms
from scheduling.levels import Domain, Levels
from scheduling.requirements import Gang, GangTask, Requirement, SetPath, describe
from scheduling.sentences import count_of
from scheduling.tree import ConstraintNode as TreeNode
from scheduling.tree import ConstraintTree
from workflows.feasibility.nodes import ObservedNodes, demand_of, observed_nodes, selectors_of
from workflows.feasibility.placed import outcomes_on
from workflows.feasibility.report import holders_of
from workflows.feasibility.sentences import redacted, sentence
from workflows.lifecycle.statuses import TERMINAL
from workflows.models import Task, TaskGroup, Workflow
from workflows.reconcile.group_view import group_values
from workflows.selectors import names_known_to
from workflows.values.placement import GroupPlacement, GroupValues

MOST_GROUPS = 12
MOST_VERDICTS = 3
MOST_SETS = 40
MOST_DOMAINS = 6
"""What is told at length; of more, only how many."""

Lettered = tuple[SetPath, str]
"""A set of a gang at one level: its path and the level's key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLanded:
    """One set where it stands. ``domains`` are those it stands in, with its tasks in each."""

    mark: Mark
    words: str
    tasks: int
    outcome: str
    tone: str
    required: bool
    domains: tuple[tuple[str, int], ...]
    more: int
    outside: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainTold:
    path: str
    free: int
    empty: int
    missing: int
    closed: int
    holders: str
    free_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetWaiting:
    """One set that waits, and the domains that lack least for it."""

    words: str
    tasks: int
    key: str
    domains: int
    fit_now: int
    nearest: tuple[DomainTold, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShown:
    """A group of the chosen workflow; ``drawn`` says that its waiting set is the one in the picture."""

    name: str
    status: str
    reason: str = ""
    landed: tuple[SetLanded, ...] = ()
    more_sets: int = 0
    answer: str = ""
    sentence: str = ""
    waiting: tuple[SetWaiting, ...] = ()
    drawn: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowShown:
    """The chosen workflow. ``marks`` are its tasks by node, by their narrowest set."""

    name: str
    status: str
    pool: str
    groups: tuple[GroupShown, ...] = ()
    more_groups: int = 0
    marks: Mapping[str, tuple[Mark, ...]] = field(default_factory=dict, repr=False)
    domains: Mapping[tuple[int, Path], Chosen] = field(default_factory=dict, repr=False)

    def in_domain(self, rank: int, path: Path) -> Chosen:
        """What it has to do with a domain of the map; its scheduler may know domains by their value alone."""
        by_path = self.domains.get((rank, path), Chosen())
        by_value = self.domains.get((rank, path[-1:]), Chosen())
        return Chosen(sets=by_path.sets, room=by_path.room or by_value.room)


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    node: str
    task: GangTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What the map stands on: the nodes that ``selection`` matches in a cluster, as they were read for it.

    ``levels`` are those that make boxes, ``places`` the place of each node under them, by name. ``user``
    looks at it, and learns no names of workflows that are not theirs to list.
    """

    user: Caller
    cluster: str
    selection: Mapping[str, str]
    seen: ObservedNodes
    levels: Levels
    places: Mapping[str, Domain]


def workflow_shown(workflow: Workflow, *, ground: Ground, drawn: str) -> WorkflowShown:
    """Tell of a workflow on a map. Groups in another cluster are left out: their nodes are not these.

    ``drawn`` names the group whose waiting set is shown in the picture; empty: the first that waits.
    """
    live = workflow.groups.filter(released_at=None, backend__cluster_id=ground.cluster).exclude(
        status__in=[str(one) for one in TERMINAL]
    )
    groups = list(live.select_related("backend").order_by("position")[: MOST_GROUPS + 1])
    rows = _rows(groups[:MOST_GROUPS])
    found = _Finder(ground, _labels(ground.cluster, rows))
    shown = [found.group(group, rows.get(group.pk, ()), drawn=drawn) for group in groups[:MOST_GROUPS]]
    return WorkflowShown(
        name=workflow.name,
        status=workflow.status,
        pool=workflow.pool_name,
        groups=tuple(shown),
        more_groups=live.count() - MOST_GROUPS if len(groups) > MOST_GROUPS else 0,
        marks={node: tuple(marks.values()) for node, marks in found.marks.items()},
        domains={
            at: Chosen(sets=tuple(found.landed.get(at, {}).values()), room=found.rooms.get(at))
            for at in found.landed.keys() | found.rooms.keys()
        },
    )


def _rows(groups: Sequence[TaskGroup]) -> dict[UUID, list[_Row]]:
    """The latest try of each task, with what it requires. One query."""
    columns = ("group_id", "name", "node_name", "spec__gpu", "spec__requirements")
    tasks = Task.objects.filter(group__in=groups, latest=True).order_by("position").values_list(*columns)
    found: dict[UUID, list[_Row]] = defaultdict(list)
    for group, name, node, gpus, asked in tasks:
        requirements = tuple(Requirement(**one) for one in asked or ())
        found[group].append(_Row(name, node, GangTask(name, gpus or 0, requirements)))
    return found


def _labels(cluster: str, rows: Mapping[UUID, Sequence[_Row]]) -> dict[str, Mapping[str, str]]:
    """Labels of the nodes that tasks stand on. One query."""
    names = {row.node for group in rows.values() for row in group if row.node}
    found = Node.objects.filter(cluster_id=cluster, name__in=names).order_by()
    return dict(found.values_list("name", "labels"))


class _Finder:
    """Goes through a workflow's groups and gives each set its letter."""

    def __init__(self, ground: Ground, labels: Mapping[str, Mapping[str, str]]) -> None:
        self.ground, self.labels = ground, labels
        self.marks: dict[str, dict[int, Mark]] = defaultdict(dict)
        self.landed: dict[tuple[int, Path], dict[int, Mark]] = defaultdict(dict)
        self.rooms: dict[tuple[int, Path], Room] = {}
        self._letters = 0
        self._verdicts = 0

    def group(self, group: TaskGroup, rows: Sequence[_Row], *, drawn: str) -> GroupShown:
        placement = GroupPlacement.from_json(group.placement)
        placed = [row for row in rows if row.node]
        landed = self._landed(group, placement, rows) if placed else []
        told = GroupShown(
            name=group.name,
            status=group.status,
            reason=group.waiting_reason,
            landed=tuple(landed[:MOST_SETS]),
            more_sets=max(0, len(landed) - MOST_SETS),
        )
        if len(placed) == len(rows):
            return told
        return self._waiting(group, placement, told, drawn=drawn)

    def _landed(self, group: TaskGroup, placement: GroupPlacement, rows: Sequence[_Row]) -> list[SetLanded]:
        gang = Gang(group.name, tuple(row.task for row in rows))
        nodes = {row.name: row.node for row in rows if row.node}
        tree, found = outcomes_on(gang, placement, nodes, self.labels)
        tasks = _tasks_by_set(tree)
        lettered: dict[Lettered, Mark] = {}
        told = []
        for one in found:
            members = [name for name in tasks[one.path, one.level] if name in nodes]
            mark = lettered[one.path, one.level] = self._mark(len(members))
            self._stand_in_domains(mark, one.level, [nodes[name] for name in members], placement.levels)
            told.append(_landed_set(one, mark, len(members)))
        return told + self._on_nodes(tree, nodes, lettered)

    def _on_nodes(
        self,
        tree: ConstraintTree,
        nodes: Mapping[str, str],
        lettered: Mapping[Lettered, Mark],
    ) -> list[SetLanded]:
        """Mark the nodes, each task by its narrowest set; what belongs to none makes a last set."""
        narrowest: dict[str, Mark] = {}
        for node in tree.root.walk():
            for member in sorted(node.members, key=lambda member: member.rank):
                mark = lettered[member.path, tree.levels[member.rank].key]
                narrowest.update(dict.fromkeys((task.name for task in node.all_tasks()), mark))
        free = [name for name in nodes if name not in narrowest]
        rest = []
        if free:
            mark = self._mark(len(free))
            narrowest.update(dict.fromkeys(free, mark))
            words = "the rest of its tasks" if lettered else "all its tasks"
            rest = [_unbound(mark, f"{words}, bound to no domain", {nodes[name] for name in free})]
        for name, at in nodes.items():
            mark = narrowest[name]
            seen = self.marks[at].get(mark.hue)
            self.marks[at][mark.hue] = Mark(mark.letter, mark.hue, (seen.tasks if seen else 0) + 1)
        return rest

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
            seen = self.landed[at].get(mark.hue)
            self.landed[at][mark.hue] = Mark(mark.letter, mark.hue, (seen.tasks if seen else 0) + 1)

    def _mark(self, tasks: int) -> Mark:
        self._letters += 1
        return Mark(letters(self._letters - 1), self._letters - 1, tasks)

    def _waiting(
        self, group: TaskGroup, placement: GroupPlacement, told: GroupShown, *, drawn: str
    ) -> GroupShown:
        """The verdict on a group that waits, for the first few and for the one that was asked for."""
        asked = drawn == group.name
        if self._verdicts >= MOST_VERDICTS and not asked:
            return told
        self._verdicts += 1
        values = group_values(group, placement)
        held = capabilities_at(placement.scheduler_type, placement.scheduler_version)
        seen = self._seen(values, held, has_none=not told.landed)
        if not seen.snapshot.nodes:
            return told
        demand = demand_of(values, capabilities=held)
        found = judge(seen.snapshot, demand)
        verdict = redacted(found, names_known_to(self.ground.user, holders_of(found)))
        node = _narrowest(verdict, demand)
        shows = node is not None and (asked or (not drawn and not self.rooms))
        if node and shows:
            self._draw(rooms(seen.snapshot, demand, path=node.path), node, placement.levels)
        return replace(
            told,
            answer=verdict.answer.value,
            sentence=sentence(verdict),
            waiting=tuple(_waits(verdict)),
            drawn=describe(node.path) if node and shows else "",
        )

    def _seen(self, values: GroupValues, held: Capabilities, *, has_none: bool) -> ObservedNodes:
        """The nodes for a group's tasks, free of what it holds itself; the map's own where they are those."""
        placement, selectors = values.placement, selectors_of([values])
        cluster = placement.cluster_uid or self.ground.cluster
        own = self.ground.seen
        alike = (
            (cluster, selectors) == (self.ground.cluster, [self.ground.selection])
            and placement.levels == own.snapshot.levels
            and (Capability.TOPOLOGY_PATH_DOMAINS in held) == own.snapshot.paths
        )
        if has_none and alike:
            return own
        return observed_nodes(
            cluster, selectors=selectors, levels=placement.levels, capabilities=held, without=[values.uuid]
        )

    def _draw(self, found: Sequence[DomainCapacity], node: TreeNode, levels: Levels) -> None:
        """Put what the set finds into the map's domains, if those are the levels it was asked for under."""
        rank = node.constraint.required
        if rank is None or levels[: rank + 1] != self.ground.levels[: rank + 1]:
            return
        for room in found:
            free = max(0, node.size - room.missing)
            self.rooms[rank, room.path] = Room(node.size, free, room.empty)


def _narrowest(verdict: Verdict, demand: GangDemand) -> TreeNode | None:
    """The set to compare with domains: the narrowest that no domain holds now, or that has a level at all."""
    bound = [node for node in demand.tree.root.walk() if node.constraint.required is not None]
    blocked = {one.path for one in verdict.blocked}
    return next((node for node in reversed(bound) if node.path in blocked), bound[-1] if bound else None)


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


def _landed_set(one: SetOutcome, mark: Mark, tasks: int) -> SetLanded:
    domains = sorted(one.domains.items(), key=lambda entry: (-entry[1], entry[0]))
    return SetLanded(
        mark=mark,
        words=describe(one.path),
        tasks=tasks,
        outcome=one.outcome.name,
        tone=_TONES[one.outcome],
        required=one.required,
        domains=tuple(("/".join(path), count) for path, count in domains[:MOST_DOMAINS]),
        more=max(0, len(domains) - MOST_DOMAINS),
        outside=one.outside,
    )


def _unbound(mark: Mark, words: str, nodes: set[str]) -> SetLanded:
    return SetLanded(
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


def _waits(verdict: Verdict) -> Iterator[SetWaiting]:
    if verdict.answer is Answer.NOW:
        return
    for one in verdict.sets:
        if one.is_blocked or one.key is not None:
            yield SetWaiting(
                words=_set_words(one),
                tasks=one.tasks,
                key=one.key or "pool",
                domains=one.domains,
                fit_now=one.fit_now,
                nearest=tuple(map(_told, one.nearest)),
            )


def _set_words(one: SetVerdict) -> str:
    return f"{describe(one.path)} and {one.alike - 1} alike" if one.alike > 1 else describe(one.path)


def _told(room: DomainCapacity) -> DomainTold:
    return DomainTold(
        path="/".join(room.path) or "the whole pool",
        free=room.free,
        empty=room.empty,
        missing=room.missing,
        closed=room.closed,
        holders=", ".join(holder.name for holder in room.holders),
        free_at=room.free_at,
    )


def letters(number: int) -> str:
    """A, B, ... Z, AA, AB, ..."""
    first, last = divmod(number, 26)
    return (letters(first - 1) if first else "") + chr(ord("A") + last)
