"""Gangs that others submitted to Kubernetes' own scheduler: PodGroups, alone or below CompositePodGroups.

The pod groups below one root are one gang, and each is an object with pods of its own, so a reading takes
those beside it too (``siblings``). A group has one topology key at most; below a group with a key a domain is
a path of labels. ``gang`` names what was seen running; groups are placed in order of creation, then of name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduling.backends.base import ResourceKind
from scheduling.backends.kubernetes.gang import WITH_COMPOSITES
from scheduling.backends.kubernetes.group_kinds import COMPOSITE, COMPOSITE_GATE, POD_GROUP
from scheduling.capabilities import SchedulerVersion
from scheduling.foreign import written
from scheduling.foreign.gang import ForeignGang, GangKept, NotRead, PodKept, root_of
from scheduling.foreign.part_tree import Part, levels_of
from scheduling.foreign.reading import GangReading
from scheduling.foreign.written import printable
from scheduling.queues.joined_queues import Readings
from scheduling.sentences import count_of, listing, plain_listing

MOST_ABOVE = 8
"""Composites above a pod group; Kubernetes 1.37 has at most three."""

_SCHEDULED = "PodGroupInitiallyScheduled"
_WORD = "pod group"


class KubernetesForeignGangs:
    """PodGroups and CompositePodGroups of Kubernetes."""

    kinds: tuple[ResourceKind, ...] = (POD_GROUP, COMPOSITE)
    made_of_pods = True

    def gang_of(self, pod: Mapping[str, Any]) -> tuple[str, str]:
        group = written.mapping(written.mapping(pod.get("spec")).get("schedulingGroup"))
        return written.text(group.get("podGroupName")), ""

    def evictable(self, pod: Mapping[str, Any]) -> None:
        """Whose pods this scheduler preempts is not examined."""
        del pod

    def keep(
        self,
        resource: ResourceKind,
        obj: Mapping[str, Any],
        *,
        pod_of: Callable[[Mapping[str, Any]], PodKept],
    ) -> Mapping[str, Any] | None:
        del pod_of
        return None if written.is_ending(obj) else _remainder(resource.kind, obj)

    def above(self, remainder: Mapping[str, Any]) -> tuple[ResourceKind, str] | None:
        parent = written.text(remainder.get("parent"))
        return (COMPOSITE, parent) if parent else None

    def read(
        self,
        gang: GangKept,
        *,
        topologies: Mapping[str, tuple[str, ...]],
        queues: Readings,
        version: SchedulerVersion | None,
        siblings: Sequence[GangKept] = (),
    ) -> ForeignGang:
        del topologies, queues
        reading = GangReading(gang, f'PodGroup "{printable(gang.name)}"', _WORD)
        return reading.read(_GroupTreeReader(reading, version, siblings).read)


def _remainder(kind: str, obj: Mapping[str, Any]) -> dict[str, Any]:
    fields = written.Fields(obj, kind)
    spec, metadata = fields.fields("spec"), fields.fields("metadata")
    status = fields.fields("status").values
    gang = spec.fields("schedulingPolicy").fields("gang")
    topology = spec.fields("schedulingConstraints").entries("topology")
    conditions = fields.fields("status").entries("conditions")
    return written.bounded(
        {
            "owner": written.owner_of(metadata.values),
            "created": metadata.text("creationTimestamp"),
            "priority": spec.text("priorityClassName"),
            "value": spec.number("priority"),
            "parent": spec.text("parentCompositePodGroupName"),
            "minimum": gang.count("minCount" if kind == POD_GROUP.kind else "minGroupCount"),
            "keys": [entry.text("key") for entry in topology],
            "placed": any(
                entry.values.get("type") == _SCHEDULED and entry.values.get("status") == "True"
                for entry in conditions
            ),
            "report": written.last_message(status, "conditions", _SCHEDULED),
            "problems": fields.problems,
        }
    )


@dataclass(slots=True, kw_only=True)
class _PlacedGroup:
    """A composite with the groups in it, or a pod group with its gang."""

    name: str
    created: str
    parent: str
    minimum: int
    key: str
    value: int | None
    gang: GangKept | None
    inner: "list[_PlacedGroup]" = field(default_factory=list)

    @property
    def words(self) -> str:
        kind = COMPOSITE.kind if self.gang is None else POD_GROUP.kind
        return f'{kind} "{printable(self.name)}"'


def _group(name: str, obj: Mapping[str, Any], gang: GangKept | None) -> _PlacedGroup:
    keys = written.strict_texts(obj.get("keys", []))
    if len(keys) > 1:
        raise written.UnreadableRow(f"it has {count_of(len(keys), 'topology key')}, and may have one.")
    value = obj.get("value")
    return _PlacedGroup(
        name=name,
        created=gang.created if gang else written.strict(obj.get("created", ""), str),
        parent=written.strict(obj.get("parent", ""), str),
        minimum=written.strict_count(obj.get("minimum", 0)),
        key=keys[0] if keys else "",
        value=None if value is None else written.strict(value, int),
        gang=gang,
    )


class _GroupTreeReader:
    """One reading of a pod group with all that are placed together with it."""

    def __init__(
        self, reading: GangReading, version: SchedulerVersion | None, siblings: Sequence[GangKept]
    ) -> None:
        self._reading = reading
        self._holds_composites = version is not None and version.has(WITH_COMPOSITES)
        root = root_of(reading.gang)
        beside = [gang for gang in siblings if root and root_of(gang) == root]
        gangs = {gang.name: gang for gang in (*beside, reading.gang)}
        self._gangs = [gangs[name] for name in sorted(gangs)]
        self._groups: dict[tuple[bool, str], _PlacedGroup] = {}
        self._labels: tuple[str, ...] = ()

    def read(self, obj: Mapping[str, Any]) -> ForeignGang:
        reading = self._reading
        reading.head(obj)
        pods = [entry for gang in self._gangs for entry in gang.pods]
        reading.pods(pods)
        root = self._root()
        if root is None:
            return reading.undemanded()
        if root.inner and not self._holds_composites:
            message = (
                f"It is not known whether the scheduler holds CompositePodGroups (its gate {COMPOSITE_GATE})."
            )
            reading.note(NotRead.TOPOLOGY, message)
        self._check_priority(root)
        self._read_levels(root, ())
        if any(written.mapping(gang.obj).get("placed") for gang in self._gangs):
            return reading.next_pod(reading.gang.pods)
        minimum = sum(group.minimum for group in self._groups.values() if group.gang)
        part = self._part(root)
        if not minimum and not reading.is_partial:
            return reading.next_pod(reading.gang.pods)
        return reading.demanded(part, levels_of(self._labels), minimum=minimum)

    def _root(self) -> _PlacedGroup | None:
        """The topmost group with all below it; None, with a note, where that is not known."""
        top: _PlacedGroup | None = None
        for gang in self._gangs:
            if gang.obj is None:
                self._reading.note(NotRead.MISSING, f'PodGroup "{printable(gang.name)}" does not exist.')
                return None
            group = self._groups[False, gang.name] = _group(gang.name, gang.obj, gang)
            top = self._climb(group, gang.above)
            if top is None:
                return None
        for group in self._groups.values():
            group.inner.sort(key=lambda inner: (inner.created, inner.name))
        return top

    def _climb(self, group: _PlacedGroup, above: Sequence[Mapping[str, Any] | None]) -> _PlacedGroup | None:
        """Put a group into what stands above it, up to the root."""
        way = {group.name} if group.gang is None else set()
        for place in range(MOST_ABOVE + 1):
            if not group.parent:
                return group
            name = group.parent
            if name in way or place == MOST_ABOVE:
                message = f'CompositePodGroup "{printable(name)}" stands above itself, or too many above it.'
                self._reading.note(NotRead.MALFORMED, message)
                return None
            way.add(name)
            parent = self._groups.get((True, name))
            entry = above[place] if place < len(above) else None
            if parent is None:
                if entry is None:
                    message = (
                        f'CompositePodGroup "{printable(name)}", which {group.words} names, does not exist.'
                    )
                    self._reading.note(NotRead.MISSING, message)
                    return None
                parent = self._groups[True, name] = _group(name, entry, None)
            if not any(inner is group for inner in parent.inner):
                parent.inner.append(group)
            group = parent
        return None

    def _check_priority(self, root: _PlacedGroup) -> None:
        """Name a priority that differs between the root and its pods: the scheduler refuses such a gang."""
        values = {
            entry.pod.priority
            for gang in self._gangs
            for entry in gang.pods
            if entry.pod.priority is not None
        }
        if root.value is not None and values - {root.value}:
            self._reading.blame(
                f"{root.words} has priority {root.value} and its pods have {min(values - {root.value})}: the "
                "scheduler places no gang whose root and pods differ in it."
            )

    def _read_levels(self, root: _PlacedGroup, above: tuple[str, ...]) -> None:
        """The levels are the keys of the longest way down; other ways are read as far as they are on it."""
        ways = list(_ways(root, above))
        self._labels = max((way for _, way in ways), key=len, default=())
        aside = []
        for group, way in ways:
            if way == self._labels[: len(way)]:
                continue
            aside.append(group.words)
            places = [self._labels.index(key) if key in self._labels else -1 for key in way]
            if -1 in places or places != sorted(places):
                group.key = ""
        if aside:
            message = (
                f"The topology keys of {plain_listing(aside)} are not the first of {listing(self._labels)}, "
                "so they are not examined in full."
            )
            self._reading.note(NotRead.TOPOLOGY, message)

    def _part(self, group: _PlacedGroup) -> Part:
        part = Part(group.name, required=self._labels.index(group.key) if group.key else None)
        if group.gang is not None:
            omitted = group.gang.omitted
            part.pods = self._reading.chosen(
                group.gang.pods, group.minimum, words=group.words, omitted=omitted
            )
            return part
        if group.minimum > len(group.inner):
            message = (
                f"{group.words} needs {group.minimum} groups, of which {len(group.inner)} have waiting pods."
            )
            self._reading.is_partial = True
            self._reading.note(NotRead.PODS, message)
        elif group.minimum < len(group.inner):
            some = f"{group.minimum} of the {len(group.inner)} groups of {group.words}"
            message = f"{some} are enough; all are examined."
            self._reading.note(NotRead.TOPOLOGY, message)
        part.parts = [self._part(inner) for inner in group.inner]
        return part


def _ways(group: _PlacedGroup, above: tuple[str, ...]) -> "list[tuple[_PlacedGroup, tuple[str, ...]]]":
    """Each group with a key, with the keys from the root down to it."""
    way = (*above, group.key) if group.key and group.key not in above else above
    own = [(group, way)] if group.key else []
    return [*own, *(entry for inner in group.inner for entry in _ways(inner, way))]
