"""Gangs that others submitted to KAI: PodGroups as OSMO, Grove, KAI's podgrouper and people write them.

What KAI makes of a PodGroup (``render`` names the rules that the service keeps; others need not):

- Only leaves have a minimum; that of an inner sub-group counts nowhere, nor does that of a PodGroup with
  sub-groups. A leaf without one needs a pod before 0.15, and none from then on.
- A constraint without a Topology is ignored. One that names a Topology or a level that does not exist, no
  level at all, or a preferred level broader than the required one is never met.
- A node that lacks any label of a constraint's Topology is invisible to it.
- A required level without a preferred one is never met while all nodes to choose from share a narrower
  domain; so one broader than that of a sub-group around it never is.
- A pod whose label names no leaf is never placed. Without the label it belongs to the leaf ``default``.
- Parents are looked up in lower case, sub-groups are named as they are.

Source: docs/explanation/kai-behaviour.md, seen running; of the pod groups of others their sources of 2026.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from scheduling.backends.base import ResourceKind
from scheduling.backends.kai.features import POD_GROUP
from scheduling.backends.kai.minimum import SUBGROUP_LABEL
from scheduling.backends.kai.queue_rules import PREEMPTIBLE_BELOW
from scheduling.backends.kai.render import POD_GROUP_ANNOTATION, QUEUE_LABEL
from scheduling.backends.kai.version import OLDEST, OPTIONAL_LEAVES, STALENESS_GRACE
from scheduling.capabilities import SchedulerVersion
from scheduling.fit.demand import Demand
from scheduling.fit.snapshot import Evictable
from scheduling.foreign import written
from scheduling.foreign.gang import (
    MOST_PARTS,
    ForeignGang,
    GangKept,
    NotRead,
    PodKept,
    PodsKept,
    SharedDomain,
)
from scheduling.foreign.part_tree import MOST_DEPTH, Part, levels_of
from scheduling.foreign.reading import GangReading
from scheduling.foreign.written import printable
from scheduling.queues.joined_queues import Readings
from scheduling.topology.levels import HOSTNAME_LABEL

_DEFAULT = "default"
"""The leaf of pods without a label."""

_NODE_POOL = "kai.scheduler/node-pool"
_PREEMPTIBILITY, _PRIORITY = "kai.scheduler/preemptibility", "priorityClassName"
"""Labels that KAI's podgrouper reads before a pod's class."""

_WORD = "sub-group"

Topologies = Mapping[str, tuple[str, ...]]


class KaiForeignGangs:
    """PodGroups of KAI."""

    kinds: tuple[ResourceKind, ...] = (POD_GROUP,)
    made_of_pods = True

    def gang_of(self, pod: Mapping[str, Any]) -> tuple[str, str]:
        metadata = written.mapping(pod.get("metadata"))
        name = written.text(written.mapping(metadata.get("annotations")).get(POD_GROUP_ANNOTATION))
        part = written.text(written.mapping(metadata.get("labels")).get(SUBGROUP_LABEL))
        return (name, part) if name else ("", "")

    def evictable(self, pod: Mapping[str, Any]) -> Evictable | None:
        """A pod of a group in a queue whose class says its priority, as KAI's podgrouper gives it to both."""
        spec = written.mapping(pod.get("spec"))
        labels = written.mapping(written.mapping(pod.get("metadata")).get("labels"))
        queue, priority = written.text(labels.get(QUEUE_LABEL)), spec.get("priority")
        named, (name, _) = spec.get("priorityClassName"), self.gang_of(pod)
        if (
            not (name and queue and named and labels.get(_PRIORITY, named) == named)
            or type(priority) is not int
        ):
            return None
        is_preemptible = labels.get(_PREEMPTIBILITY, "preemptible") == "preemptible"
        return Evictable(queue, priority) if priority < PREEMPTIBLE_BELOW and is_preemptible else None

    def keep(
        self,
        resource: ResourceKind,
        obj: Mapping[str, Any],
        *,
        pod_of: Callable[[Mapping[str, Any]], PodKept],
    ) -> Mapping[str, Any] | None:
        del resource, pod_of
        return None if written.is_ending(obj) else _remainder(obj)

    def above(self, remainder: Mapping[str, Any]) -> tuple[ResourceKind, str] | None:
        """None: all of a gang is in one object."""
        del remainder
        return None

    def read(
        self,
        gang: GangKept,
        *,
        topologies: Topologies,
        queues: Readings,
        version: SchedulerVersion | None,
        siblings: Sequence[GangKept] = (),
    ) -> ForeignGang:
        del queues, siblings
        reading = GangReading(gang, f'PodGroup "{printable(gang.name)}"', _WORD)
        reader = _PodGroupReader(reading, topologies, version or OLDEST)
        return reading.read(reader.read)


def _remainder(obj: Mapping[str, Any]) -> dict[str, Any]:
    """What decides on the place of a PodGroup; a constraint that several parts have is written once."""
    fields = written.Fields(obj, "PodGroup")
    spec, status, metadata = fields.fields("spec"), fields.fields("status"), fields.fields("metadata")
    constraints: dict[tuple[str, ...], int] = {}

    def place_of(part: written.Fields) -> int | None:
        constraint = part.fields("topologyConstraint")
        names = ("topology", "requiredTopologyLevel", "preferredTopologyLevel")
        entry = tuple(constraint.text(name) for name in names)
        return constraints.setdefault(entry, len(constraints)) if any(entry) else None

    parts = [
        [part.text("name"), part.text("parent"), part.count("minMember"), part.count("minSubGroup"), at]
        for part in spec.entries("subGroups")
        for at in (place_of(part),)
    ]
    allocated = status.fields("resourcesStatus").fields("allocated").values
    return written.bounded(
        {
            "owner": written.owner_of(metadata.values),
            "queue": spec.text("queue"),
            "priority": spec.text("priorityClassName"),
            "node_pool": metadata.fields("labels").text(_NODE_POOL),
            "root": ["", "", spec.count("minMember"), spec.count("minSubGroup"), place_of(spec)],
            "parts": parts,
            "constraints": [list(entry) for entry in constraints],
            "placed": any(str(amount).strip("0.") not in ("", "m") for amount in allocated.values()),
            "report": written.last_message(status.values, "schedulingConditions"),
            "problems": fields.problems,
        }
    )


@dataclass(slots=True, kw_only=True)
class _SubGroup:
    """A sub-group, or the PodGroup itself; ``constraint`` is a place in the list of them."""

    name: str
    parent: str
    minimum: int | None
    least_parts: int | None
    constraint: int | None
    inner: "list[_SubGroup]"

    @property
    def words(self) -> str:
        return f'sub-group "{printable(self.name)}"' if self.name else "the PodGroup"


@dataclass(frozen=True, slots=True)
class _Constraint:
    """A constraint that KAI can meet: ranks in the labels of its Topology."""

    labels: tuple[str, ...]
    required: int | None
    preferred: int | None

    @property
    def narrowest(self) -> int:
        return max(rank for rank in (self.required, self.preferred) if rank is not None)

    @property
    def cut(self) -> int:
        """The narrowest level that nodes have to carry; each has a host name."""
        last = len(self.labels) - 1
        return last - (self.labels[last] == HOSTNAME_LABEL and self.narrowest < last)


def _sub_group(row: object) -> _SubGroup:
    name, parent, minimum, least_parts, constraint = written.strict_row(row, 5)
    return _SubGroup(
        name=written.strict(name, str),
        parent=written.strict(parent, str),
        minimum=None if minimum is None else written.strict_count(minimum),
        least_parts=None if least_parts is None else written.strict_count(least_parts),
        constraint=None if constraint is None else written.strict_count(constraint),
        inner=[],
    )


class _PodGroupReader:
    """One reading of a PodGroup."""

    def __init__(self, reading: GangReading, topologies: Topologies, version: SchedulerVersion) -> None:
        self._reading, self._topologies, self._version = reading, topologies, version
        self._constraints: list[_Constraint | None] = []
        self._labels: tuple[str, ...] = ()

    def read(self, obj: Mapping[str, Any]) -> ForeignGang:
        reading = self._reading
        reading.head(obj)
        reading.pods(reading.gang.pods)
        root = _sub_group(obj.get("root"))
        rows = written.strict(obj.get("parts", []), list)
        if len(rows) > MOST_PARTS:
            reading.note(NotRead.TOO_LARGE, f"{reading.words} has more than {MOST_PARTS:,} sub-groups.")
            return reading.undemanded()
        groups = [_sub_group(row) for row in rows]
        if not self._nest(root, groups):
            return reading.undemanded()
        self._read_constraints(written.strict(obj.get("constraints", []), list), [root, *groups])
        pods = self._by_leaf(groups)
        if obj.get("placed"):
            return reading.next_pod(reading.gang.pods, counts_largest=True)
        minimum = sum(self._minimum(group) for group in [root, *groups] if not group.inner)
        part = self._part(root, pods, within=None)
        if not minimum and not reading.is_partial:
            return reading.next_pod(reading.gang.pods, counts_largest=True)
        pool = written.strict(obj.get("node_pool", ""), str)
        levels = levels_of(self._labels)
        demand_of = partial(_demand, node_pool=pool)
        return reading.demanded(part, levels, minimum=minimum, counts_largest=True, demand_of=demand_of)

    def _nest(self, root: _SubGroup, groups: Sequence[_SubGroup]) -> bool:
        """Put each sub-group into its parent; False, with a note, where that cannot be done."""
        by_name = {group.name: group for group in groups}
        if len(by_name) < len(groups):
            return self._refuse("has two sub-groups of one name")
        for group in groups:
            above = by_name.get(group.parent.lower()) if group.parent else root
            if above is None:
                name = printable(group.parent)
                return self._refuse(f'names sub-group "{name}" as a parent, and has none of that name')
            above.inner.append(group)
        reached, depth, row = 0, 0, root.inner
        while row:
            reached, depth = reached + len(row), depth + 1
            row = [inner for group in row for inner in group.inner]
        if reached < len(groups):
            return self._refuse("has sub-groups that are inside themselves")
        if depth >= MOST_DEPTH:
            return self._refuse(f"has {MOST_DEPTH} or more sub-groups inside each other")
        inner_first = self._version < OPTIONAL_LEAVES  # 0.14 and earlier
        for group in (root, *groups):
            group.inner.sort(key=lambda inner: (inner_first and not inner.inner, inner.name))
        return True

    def _refuse(self, why: str) -> bool:
        self._reading.note(NotRead.MALFORMED, f"{self._reading.words} {why}.")
        return False

    def _read_constraints(self, rows: list[object], groups: Sequence[_SubGroup]) -> None:
        """Read the constraints; those that are not on the levels of the longest Topology are left out."""
        words: dict[int, str] = {}
        for group in reversed(groups):
            if group.constraint is not None:
                words[group.constraint] = group.words
        self._constraints = [
            self._constraint(row, words.get(place, "a sub-group")) for place, row in enumerate(rows)
        ]
        read = [constraint for constraint in self._constraints if constraint]
        longest = max((constraint.labels for constraint in read), key=len, default=())
        apart = [each for each in read if longest[: len(each.labels)] != each.labels]
        if apart:
            message = (
                f"{self._reading.words} names Topologies of which none has the levels of all; "
                "only the constraints on the longest are examined."
            )
            self._reading.note(NotRead.TOPOLOGY, message)
        self._constraints = [None if each in apart else each for each in self._constraints]
        used = [each.cut for each in self._constraints if each]
        self._labels = longest[: max(used) + 1] if used else ()

    def _constraint(self, row: object, words: str) -> _Constraint | None:
        topology, *written_levels = (written.strict(text, str) for text in written.strict_row(row, 3))
        if not topology:
            return None  # KAI ignores it
        labels = self._topologies.get(topology)
        subject = f'The constraint of {words} names Topology "{printable(topology)}"'
        if labels is None:
            self._reading.note(NotRead.MISSING, f"{subject}, which does not exist.")
            self._reading.blame(f"{subject}, which does not exist, so KAI does not place the gang.")
            return None
        if unknown := [level for level in written_levels if level and level not in labels]:
            self._note_level(f'{subject} and level "{printable(unknown[0])}", which is not in it')
            return None
        required, preferred = (labels.index(level) if level else None for level in written_levels)
        if required is None and preferred is None:
            self._reading.blame(f"{subject} and no level, so KAI never places the gang.")
            return None
        if required is not None and preferred is not None and preferred < required:
            message = f"{subject} and prefers a broader level than it requires, so KAI never places the gang."
            self._reading.blame(message)
            return None
        return _Constraint(labels, required, preferred)

    def _note_level(self, text: str) -> None:
        if self._version >= STALENESS_GRACE:  # it may be an alias, which nobody reads
            self._reading.note(NotRead.TOPOLOGY, f"{text} unless as an alias: it is not examined.")
        else:
            self._reading.note(NotRead.MALFORMED, f"{text}.")
            self._reading.blame(f"{text}, so KAI never places the gang.")

    def _by_leaf(self, groups: Sequence[_SubGroup]) -> dict[str, list[PodsKept]]:
        """The waiting pods of each leaf; pods of none are named."""
        leaves = {group.name for group in groups if not group.inner} or {""}
        by_leaf: dict[str, list[PodsKept]] = {}
        for entry in self._reading.gang.pods:
            leaf = _DEFAULT if groups and not entry.part else entry.part
            if leaf in leaves:
                by_leaf.setdefault(leaf, []).append(entry)
                continue
            label = f'name sub-group "{printable(entry.part)}"' if entry.part else "name no sub-group"
            message = (
                f"Waiting pods {label}, which is no leaf of {self._reading.words}: KAI never places them."
            )
            self._reading.blame(message)
        return by_leaf

    def _minimum(self, leaf: _SubGroup) -> int:
        return max(leaf.minimum or 0, 0 if self._version >= OPTIONAL_LEAVES else 1)

    def _part(self, group: _SubGroup, pods: Mapping[str, list[PodsKept]], *, within: int | None) -> Part:
        """A sub-group as a part; ``within`` is the narrowest rank that is required around it."""
        part = Part(group.name)
        constraint = None
        if group.constraint is not None and group.constraint < len(self._constraints):
            constraint = self._constraints[group.constraint]
        if constraint is not None:
            part.required, part.preferred = constraint.required, constraint.preferred
            part.cut = constraint.cut if constraint.cut > constraint.narrowest else None
            self._note_alone(group, constraint, within)
            within = max((r for r in (within, constraint.required) if r is not None), default=None)
        if group.least_parts is not None and group.least_parts < len(group.inner):
            message = (
                f"Of the {len(group.inner)} sub-groups of {group.words}, {group.least_parts} are enough "
                "(minSubGroup); all are examined."
            )
            self._reading.note(NotRead.TOPOLOGY, message)
        part.parts = [self._part(inner, pods, within=within) for inner in group.inner]
        if not group.inner:
            part.pods = self._reading.chosen(
                pods.get(group.name, ()),
                self._minimum(group),
                words=group.words,
                omitted=self._reading.gang.omitted,
            )
        return part

    def _note_alone(self, group: _SubGroup, constraint: _Constraint, within: int | None) -> None:
        """Name a required level without a preferred one, which KAI may never meet."""
        rank, labels = constraint.required, constraint.labels
        if rank is None or constraint.preferred is not None or rank + 1 == len(labels):
            return
        never = f'Level "{labels[rank]}" is required for {group.words} and no level is preferred'
        if within is not None and within > rank:
            self._reading.blame(f"{never}, inside a narrower domain: KAI never places the gang.")
            return
        message = (
            f'{never}: KAI does not place the gang while all nodes there share one "{labels[rank + 1]}".'
        )
        domain = labels[: rank + 2]
        within_labels = 0 if within is None else within + 1
        self._reading.shared_domains.append(
            SharedDomain(labels=domain, within=within_labels, message=message)
        )


def _demand(pod: PodKept, *, node_pool: str) -> Demand:
    demand = pod.demand()
    return demand.on_nodes_with({_NODE_POOL: node_pool}) if node_pool else demand
