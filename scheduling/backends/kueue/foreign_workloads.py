"""Gangs that others submitted to Kueue: Workloads as its integrations write them for jobs of every kind.

A Workload has templates of its pods, which come after it is admitted. Its queue leads to flavors, of which
each selects nodes and may name a Topology; Kueue gives pods the labels and tolerations of theirs. Where no
flavor of the queue has a Topology, Kueue counts quota alone and looks at no node; so it does for pod sets
without a topology request where some flavor has none. Pod sets of one
``podSetGroupName`` share a domain: a leader and its workers. ``pod_sets`` and ``queues`` name the sources.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scheduling.backends.base import ResourceKind
from scheduling.backends.kueue import queues
from scheduling.backends.kueue.features import WORKLOAD
from scheduling.capabilities import SchedulerVersion
from scheduling.fit.demand import Demand
from scheduling.foreign import written
from scheduling.foreign.gang import ForeignGang, GangKept, NotRead, PodKept, PodsKept
from scheduling.foreign.part_tree import Part, levels_of
from scheduling.foreign.reading import GangReading
from scheduling.foreign.written import printable
from scheduling.nodes.taints import barring, taint_name
from scheduling.queues.joined_queues import JoinedQueue, NodeFlavor, Readings
from scheduling.sentences import listing
from scheduling.topology.levels import HOSTNAME_LABEL

_WORD = "pod set"
_NOT_WAITING = ("QuotaReserved", "Admitted", "Finished")
_ASKING = ("required", "preferred", "unconstrained", "podSetSliceRequiredTopology")
"""Fields of a topology request by which it asks for a flavor with a Topology."""

_NO_TOPOLOGY = ("NoTopology", "FlavorsExcludePool")
"""Faults of a queue for the service's own gangs alone."""


class KueueForeignGangs:
    """Workloads of Kueue."""

    kinds: tuple[ResourceKind, ...] = (WORKLOAD,)
    made_of_pods = False

    def gang_of(self, pod: Mapping[str, Any]) -> tuple[str, str]:
        """Empty: a Workload waits before its pods do."""
        del pod
        return "", ""

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
        del resource
        fields = written.Fields(obj, WORKLOAD.kind)
        met = {
            str(condition.values.get("type"))
            for condition in fields.fields("status").entries("conditions")
            if condition.values.get("status") == "True"
        }
        if written.is_ending(obj) or met.intersection(_NOT_WAITING):
            return None
        return _remainder(fields, pod_of)

    def above(self, remainder: Mapping[str, Any]) -> tuple[ResourceKind, str] | None:
        """None: all of a gang is in one object."""
        del remainder
        return None

    def read(
        self,
        gang: GangKept,
        *,
        topologies: Mapping[str, tuple[str, ...]],
        queues: Readings,
        version: SchedulerVersion | None,
        siblings: Sequence[GangKept] = (),
    ) -> ForeignGang:
        del version, siblings
        reading = GangReading(gang, f'Workload "{printable(gang.name)}"', _WORD)
        return reading.read(_WorkloadReader(reading, topologies, queues).read)


def _remainder(fields: written.Fields, pod_of: Callable[[Mapping[str, Any]], PodKept]) -> dict[str, Any]:
    spec, status = fields.fields("spec"), fields.fields("status")
    priority = spec.fields("priorityClassRef").text("name")
    number = spec.number("priority")
    ended = {entry.text("name"): entry.count("count") or 0 for entry in status.entries("reclaimablePods")}
    return written.bounded(
        {
            "owner": written.owner_of(fields.fields("metadata").values),
            "queue": spec.text("queueName"),
            "priority": priority or ("" if number is None else str(number)),
            "inactive": spec.flag("active") is False,
            "turn": {
                "spec": {"priority": number, "active": spec.flag("active")},
                "status": {"conditions": _evictions(status)},
            },
            "pod_sets": [_pod_set(entry, pod_of, ended) for entry in spec.entries("podSets")],
            "report": written.last_message(status.values, "conditions", "QuotaReserved"),
            "problems": fields.problems,
        }
    )


def _evictions(status: written.Fields) -> list[dict[str, str]]:
    """The condition by which its place in the queue may count from a later time than its creation."""
    names = ("type", "status", "reason")
    conditions = ({name: entry.text(name) for name in names} for entry in status.entries("conditions"))
    return [condition for condition in conditions if condition["type"] == "Evicted"][:1]


def _pod_set(
    entry: written.Fields, pod_of: Callable[[Mapping[str, Any]], PodKept], ended: Mapping[str, int]
) -> dict[str, Any]:
    request, name, count = entry.fields("topologyRequest"), entry.text("name"), entry.count("count")
    least = entry.count("minCount")
    return {
        "name": name,
        "count": max(0, (1 if count is None else count) - ended.get(name, 0)),
        "least": least,
        "pod": pod_of(entry.fields("template").values).to_json(),
        "required": request.text("required"),
        "preferred": request.text("preferred"),
        "slice": request.text("podSetSliceRequiredTopology"),
        "slice_size": request.count("podSetSliceSize"),
        "asks": any(request.values.get(name) for name in _ASKING),
        "layers": len(request.entries("podsetSliceRequiredTopologyConstraints")),
        "group": request.text("podSetGroupName"),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _WrittenSet:
    """A pod set as it is kept; ``asks`` says whether it has a topology request."""

    name: str
    asks: bool
    count: int
    least: int | None
    pod: PodKept
    required: str
    preferred: str
    slice: str
    slice_size: int
    layers: int
    group: str

    @property
    def words(self) -> str:
        return f'pod set "{printable(self.name)}"'


def _written_set(value: object) -> _WrittenSet:
    row = written.strict(value, dict)
    names = {
        name: written.strict(row.get(name), str)
        for name in ("name", "required", "preferred", "slice", "group")
    }
    least, size = row.get("least"), row.get("slice_size")
    return _WrittenSet(
        **names,
        asks=bool(row.get("asks")),
        count=written.strict_count(row.get("count")),
        least=None if least is None else written.strict_count(least),
        pod=PodKept.from_json(row.get("pod")),
        slice_size=0 if size is None else written.strict_count(size),
        layers=written.strict_count(row.get("layers")),
    )


class _WorkloadReader:
    """One reading of a Workload."""

    def __init__(
        self, reading: GangReading, topologies: Mapping[str, tuple[str, ...]], objects: Readings
    ) -> None:
        self._reading, self._topologies, self._objects = reading, topologies, objects
        self._labels: tuple[str, ...] = ()

    def read(self, obj: Mapping[str, Any]) -> ForeignGang:
        reading = self._reading
        reading.head(obj)
        sets = [_written_set(row) for row in written.strict(obj.get("pod_sets", []), list)]
        sets = [each for each in sets if each.count]
        reading.pods([PodsKept(part=each.name, count=each.count, pod=each.pod) for each in sets])
        minimum = sum(each.count if each.least is None else min(each.least, each.count) for each in sets)
        if obj.get("inactive"):
            reading.blame("Somebody has switched the Workload off (spec.active is false).")
        flavor = self._flavor(sets)
        if flavor is None:
            return reading.undemanded(minimum=minimum)
        self._labels = self._levels_used(self._topologies[flavor.topology], sets)
        root = Part("", parts=[self._part(each) for each in self._together(sets)])
        return reading.demanded(
            root,
            levels_of(self._labels),
            minimum=minimum,
            is_best_fit=True,
            cut=len(self._labels) - 1 if self._labels else None,
            demand_of=lambda pod: self._demand(pod, flavor),
        )

    def _flavor(self, sets: Sequence[_WrittenSet]) -> NodeFlavor | None:
        """The flavor whose nodes the pods get; None, with a note, where that is not known."""
        reading = self._reading
        if not reading.queue:
            reading.blame("The Workload names no queue (spec.queueName), so Kueue does not admit it.")
            self._leave("names no queue, so its nodes are not known")
            return None
        if not self._objects:
            reading.note(NotRead.MISSING, f'Queue "{printable(reading.queue)}" is not known yet.')
            return None
        namespace = reading.gang.namespace
        queue = queues.joined(namespace, reading.queue, selector={}, objects=self._objects)
        for fault in queue.faults:
            if fault.reason not in _NO_TOPOLOGY:
                reading.blame(written.sentence(fault.message))
        fitting = [
            flavor
            for flavor in queue.flavors
            if all(_agrees(flavor.node_labels, each.pod.selector) for each in sets)
        ]
        tolerated = [flavor for flavor in fitting if not self._untolerated(flavor, sets)]
        if any(fault.reason not in _NO_TOPOLOGY for fault in queue.faults):
            self._leave("has a queue that admits nothing, so its nodes are not known")
        elif fitting and not tolerated and not self._is_mixed(queue):
            message = f"{self._untolerated(fitting[0], sets)}, so Kueue does not admit the Workload."
            reading.blame(message)
            self._leave("has a queue that does not admit it, so its nodes are not known")
        elif not tolerated:
            self._leave(
                "has a queue without a flavor that has a Topology and agrees with its node selectors, so "
                "Kueue counts quota alone and no node is examined"
            )
        elif self._is_mixed(queue) and not all(each.asks for each in sets):
            self._leave(
                "has pod sets without a topology request and a queue that has flavors without a Topology, so "
                "Kueue gives them one of those, and no node is examined"
            )
        else:
            return self._first(tolerated)
        return None

    def _untolerated(self, flavor: NodeFlavor, sets: Sequence[_WrittenSet]) -> str:
        """The taint of a flavor that keeps some of its pods away, as the beginning of a sentence."""
        reading = self._objects.get((queues.FLAVOR.crd, flavor.name)) or {}
        taints = [
            {name: str(value) for name, value in taint.items()}
            for taint in written.entries(reading.get("taints"))
        ]
        for each in sets:
            if barred := barring(taints, self._tolerations(each.pod, flavor)):
                taint, name = printable(taint_name(barred[0])), printable(flavor.name)
                words = each.words[0].upper() + each.words[1:]
                return f'{words} does not tolerate taint {taint} of ResourceFlavor "{name}"'
        return ""

    def _tolerations(self, pod: PodKept, flavor: NodeFlavor) -> tuple[Mapping[str, Any], ...]:
        reading = self._objects.get((queues.FLAVOR.crd, flavor.name)) or {}
        return (*pod.tolerations, *written.entries(reading.get("tolerations")))

    def _is_mixed(self, queue: JoinedQueue) -> bool:
        """Whether some flavors of the queue have no Topology."""
        cluster_queue = self._objects.get((queues.CLUSTER_QUEUE.crd, queue.usage.name if queue.usage else ""))
        named = cluster_queue["settings"]["flavors"] if cluster_queue else ()
        return len(named) > len(queue.flavors)

    def _first(self, fitting: Sequence[NodeFlavor]) -> NodeFlavor | None:
        """The flavor that Kueue tries first; None, with a note, where its Topology does not exist."""
        if len(fitting) > 1:
            names = listing(printable(flavor.name) for flavor in fitting)
            message = f"Kueue may give it any of the flavors {names}; the first alone is examined."
            self._reading.note(NotRead.TOPOLOGY, message)
        flavor = fitting[0]
        if flavor.topology not in self._topologies:
            message = f'Topology "{printable(flavor.topology)}" of its flavor does not exist.'
            self._reading.note(NotRead.MISSING, message)
            return None
        return flavor

    def _leave(self, why: str) -> None:
        self._reading.note(NotRead.TOPOLOGY, f"{self._reading.words} {why}.")

    def _levels_used(self, labels: tuple[str, ...], sets: Sequence[_WrittenSet]) -> tuple[str, ...]:
        """All levels of the Topology, without that of single hosts where no pod set names it."""
        named = {level for each in sets for level in (each.required, each.preferred, each.slice)}
        is_spare = labels[-1:] == (HOSTNAME_LABEL,) and HOSTNAME_LABEL not in named
        return labels[:-1] if is_spare else labels

    def _together(self, sets: Sequence[_WrittenSet]) -> list[_WrittenSet]:
        """The pod sets, where those of one group whose pods are alike are one."""
        together: dict[str, _WrittenSet] = {}
        for place, each in enumerate(sets):
            first = together.get(each.group) if each.group else None
            if first is None:
                together[each.group or f"{place}/"] = each
            elif (first.pod.demand(), first.slice, each.slice) == (each.pod.demand(), "", ""):
                together[each.group] = replace(first, count=first.count + each.count)
            else:
                message = f"That {each.words} shares the domain of {first.words} is not examined."
                self._reading.note(NotRead.TOPOLOGY, message)
                together[f"{place}/"] = each
        return list(together.values())

    def _part(self, each: _WrittenSet) -> Part:
        reading = self._reading
        required, preferred = self._rank(each.required, each), self._rank(each.preferred, each)
        if required is not None and preferred is not None:
            message = f"What {each.words} prefers is not examined beside what it requires."
            reading.note(NotRead.TOPOLOGY, message)
            preferred = None
        part = Part(each.name, required=required, preferred=preferred, pods=[(each.pod, each.count)])
        if each.least is not None and each.least < each.count:
            message = (
                f"Kueue may admit {each.words} with {each.least} of its {each.count} pods; all are examined."
            )
            reading.note(NotRead.PODS, message)
        if each.layers:
            reading.note(NotRead.TOPOLOGY, f"The slices of {each.words} in several layers are not examined.")
        elif each.slice:
            self._cut(part, each)
        return part

    def _cut(self, part: Part, each: _WrittenSet) -> None:
        """Cut the pods of a part into slices, if they can be."""
        level, size = self._rank(each.slice, each), each.slice_size
        outer = part.required if part.required is not None else part.preferred
        if level is None:
            return
        if not size or each.count % size or (outer is not None and outer > level):
            message = (
                f"The slices of {each.words}, {each.count} pods in slices of {size}, are not understood."
            )
            self._reading.note(NotRead.MALFORMED, message)
            return
        part.slice_level, part.slice_size = level, size

    def _rank(self, label: str, each: _WrittenSet) -> int | None:
        if not label:
            return None
        if label in self._labels:
            return self._labels.index(label)
        message = f'Level "{printable(label)}" of {each.words} is not in the Topology of its flavor'
        self._reading.note(NotRead.MALFORMED, f"{message}.")
        self._reading.blame(f"{message}, so Kueue does not admit the Workload.")
        return None

    def _demand(self, pod: PodKept, flavor: NodeFlavor) -> Demand:
        """The demand of a pod with what Kueue adds to it."""
        selector = {**pod.selector, **flavor.node_labels}
        return replace(pod, selector=selector, tolerations=self._tolerations(pod, flavor)).demand()


def _agrees(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    return all(selector.get(label, value) == value for label, value in labels.items())
