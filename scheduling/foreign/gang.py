"""A gang that others submitted, as values: what is kept of its objects, and what its scheduler's facet reads.

An observer keeps of each object only what decides on a place (``GangKept``), never environment, commands or
images. The facet ``foreign`` of the scheduler makes of it what the service would have made of a task group of
its own: a demand that can be judged. Whatever cannot be read is named as not examined, and then nothing is
claimed to be impossible.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from scheduling.fit.demand import Demand
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.snapshot import FitNode, amounts
from scheduling.foreign import written
from scheduling.kubernetes_syntax import GPU
from scheduling.topology.levels import HOSTNAME_LABEL, Levels

MOST_PARTS = 1000
"""Sub-groups, pod sets or groups above of a gang that are read; one of more is not understood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodKept:
    """What is kept of a waiting pod, or of the template of pods to come; JSON has its fields."""

    scheduler: str = ""
    priority: int | None = None
    priority_class: str = ""

    requests: Mapping[str, int]
    """Whole numbers by resource: of ``cpu`` thousandths of a core, of memory and storage bytes."""

    selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()

    excluded: tuple[str, ...] = ()
    """Nodes by their label kubernetes.io/hostname."""

    unread: tuple[str, ...] = ()
    """What else decides on its node and is not read: ``node affinity``, ``pod affinity``, ``spread
    constraints``, ``volumes (persistentVolumeClaim)``, ``claims``, ``host ports``, ``a share of a GPU``."""

    gates: int = 0
    """How many scheduling gates it has."""

    report: str = ""
    """The message of its condition PodScheduled."""

    owner: tuple[str, str] = ("", "")
    """The kind and the name of its controller."""

    def demand(self) -> Demand:
        """The pod's demand on a node; of what is ``unread`` it has nothing."""
        counted = {name: self.requests.get(resource, 0) for name, resource in _COUNTED.items()}
        return Demand.of(
            amounts(**counted, pods=1),
            selector=self.selector,
            tolerations=self.tolerations,
            excluded=self.excluded,
            others={
                name: amount for name, amount in self.requests.items() if amount and name not in _NOT_FURTHER
            },
        )

    def to_json(self) -> dict[str, Any]:
        """Values of JSON alone, without those that are usual."""
        values: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        values["requests"] = dict(self.requests)
        values["selector"] = dict(self.selector)
        values["tolerations"] = [dict(toleration) for toleration in self.tolerations]
        values["excluded"], values["unread"] = list(self.excluded), list(self.unread)
        values["owner"] = list(self.owner) if any(self.owner) else []
        return {name: value for name, value in values.items() if value or (name == "priority" and value == 0)}

    @classmethod
    def from_json(cls, value: object) -> "PodKept":
        """The inverse of ``to_json``. Raises UnreadableRow for anything else."""
        row = written.strict(value, dict)
        kind, name = (*written.strict_texts(row.get("owner") or []), "", "")[:2]
        return cls(
            scheduler=written.strict(row.get("scheduler", ""), str),
            priority=None if row.get("priority") is None else written.strict(row["priority"], int),
            priority_class=written.strict(row.get("priority_class", ""), str),
            requests={
                written.strict(resource, str): written.strict_count(amount)
                for resource, amount in written.strict(row.get("requests", {}), dict).items()
            },
            selector={
                key: written.strict(label, str)
                for key, label in written.strict(row.get("selector", {}), dict).items()
            },
            tolerations=tuple(
                written.strict(entry, dict) for entry in written.strict(row.get("tolerations", []), list)
            ),
            excluded=written.strict_texts(row.get("excluded", [])),
            unread=written.strict_texts(row.get("unread", [])),
            gates=written.strict_count(row.get("gates", 0)),
            report=written.strict(row.get("report", ""), str),
            owner=(kind, name),
        )


_COUNTED = {"gpu": GPU, "cpu": "cpu", "memory": "memory", "storage": "ephemeral-storage"}
_NOT_FURTHER = frozenset({*_COUNTED.values(), "pods"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsKept:
    """Waiting pods of a gang that are alike. ``part`` is the name of theirs in the gang, empty for none."""

    part: str
    count: int
    pod: PodKept


@dataclass(frozen=True, slots=True, kw_only=True)
class GangKept:
    """What is kept of a waiting gang."""

    resource: str
    """The name of its kind's definition (``podgroups.scheduling.run.ai``)."""

    namespace: str
    name: str
    uid: str = ""

    created: str = ""
    """As Kubernetes writes it."""

    obj: Mapping[str, Any] | None
    """What ``ForeignGangs.keep`` left of its object; None for one that is not there."""

    above: tuple[Mapping[str, Any] | None, ...] = ()
    """The same of those above it, nearest first."""

    pods: tuple[PodsKept, ...] = ()

    omitted: int = 0
    """Waiting pods beyond what is kept."""

    problem: str = ""
    """Why the row of which it is made cannot be read, a full sentence; empty if it can."""

    def to_json(self) -> dict[str, Any]:
        """Values of JSON alone."""
        return {
            "resource": self.resource,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "created": self.created,
            "obj": self.obj,
            "above": list(self.above),
            "pods": [
                {"part": pods.part, "count": pods.count, "pod": pods.pod.to_json()} for pods in self.pods
            ],
            "omitted": self.omitted,
        }

    @classmethod
    def from_json(cls, value: object) -> "GangKept":
        """The inverse of ``to_json``; of anything else a gang with a ``problem``."""
        try:
            return cls._from_json(written.strict(value, dict))
        except written.UnreadableRow as error:
            row = written.mapping(value)
            resource, namespace, name, uid, created = (
                written.text(row.get(key)) for key in ("resource", "namespace", "name", "uid", "created")
            )
            problem = f"What was stored of the gang cannot be read: {error}"
            return cls(
                resource=resource,
                namespace=namespace,
                name=name,
                uid=uid,
                created=created,
                obj=None,
                problem=problem,
            )

    @classmethod
    def _from_json(cls, row: Mapping[str, Any]) -> "GangKept":
        pods = []
        for entry in written.strict(row.get("pods", []), list):
            part, count = written.strict(entry, dict).get("part", ""), entry.get("count")
            pods.append(
                PodsKept(
                    part=written.strict(part, str),
                    count=written.strict_count(count),
                    pod=PodKept.from_json(entry.get("pod")),
                )
            )
        return cls(
            resource=written.strict(row.get("resource"), str),
            namespace=written.strict(row.get("namespace"), str),
            name=written.strict(row.get("name"), str),
            uid=written.strict(row.get("uid", ""), str),
            created=written.strict(row.get("created", ""), str),
            obj=_strict_kept(row.get("obj")),
            above=tuple(map(_strict_kept, written.strict(row.get("above", []), list))),
            pods=tuple(pods),
            omitted=written.strict_count(row.get("omitted", 0)),
        )


def _strict_kept(value: object) -> Mapping[str, Any] | None:
    return None if value is None else written.strict(value, dict)


def root_of(gang: GangKept) -> str:
    """The name of the topmost object above a gang; empty for none. Gangs below the same are one."""
    name = ""
    for entry in (gang.obj, *gang.above):
        parent = written.text(written.mapping(entry).get("parent"))
        if not parent:
            return name
        name = parent
    return name


def kept_pods(pods: Iterable[tuple[str, PodKept]]) -> tuple[PodsKept, ...]:
    """Waiting pods, each with its part, as groups of those that are alike, in order of part.

    Pods that differ only in the scheduler's words, or in the name of their owner, are alike.
    """
    counts: dict[str, list[Any]] = {}
    groups: dict[tuple[str, int], list[Any]] = {}  # most pods of a gang are the same object
    for part, pod in list(pods):
        group = groups.get((part, id(pod)))
        if group is None:
            row = pod.to_json()
            row.pop("report", None)
            row["owner"] = pod.owner[:1]
            group = counts.setdefault(json.dumps([part, row], sort_keys=True), [part, pod, 0])
            groups[part, id(pod)] = group
        group[2] += 1
    return tuple(
        PodsKept(part=part, count=count, pod=pod)
        for part, pod, count in sorted(counts.values(), key=lambda group: group[0])
    )


class NotRead(StrEnum):
    """Why a gang, or a part of it, is not examined."""

    MISSING = "missing"
    """An object that it names is not there."""
    MALFORMED = "malformed"
    """Its objects contradict themselves or each other: a loop, two parents, a level that no Topology has."""
    TOO_LARGE = "too_large"
    POD_CONDITIONS = "pod_conditions"
    """What is in ``PodKept.unread``."""
    PODS = "pods"
    """Some of its pods are placed, or not made yet, so that its demand is not known in full."""
    TOPOLOGY = "topology"
    """Constraints of it are not what the service could have written."""
    GATES = "gates"
    """Pods wait for somebody to remove their scheduling gates."""


@dataclass(frozen=True, slots=True)
class UnreadPart:
    """What is not examined of a gang; ``message`` is a full sentence that names it."""

    code: NotRead
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedDomain:
    """A set that its scheduler never places while all nodes that it may choose from share one domain.

    The domain is that of ``labels``, a path, broadest first. Once the first ``within`` of them are chosen,
    only the nodes there count. ``message`` is a full sentence.
    """

    labels: tuple[str, ...]
    within: int
    message: str

    def holds(self, nodes: Iterable[FitNode]) -> bool:
        domains: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
        for node in nodes:
            named = {HOSTNAME_LABEL: node.name, **node.labels}
            path = tuple(named[label] for label in self.labels if label in named)
            if len(path) == len(self.labels):
                domains.setdefault(path[: self.within], set()).add(path)
        return bool(domains) and all(len(narrower) == 1 for narrower in domains.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignGang:
    """A gang that others submitted, as its scheduler's facet reads it."""

    namespace: str
    name: str
    owner: tuple[str, str] = ("", "")

    queue: str = ""
    """The name of the queue that it names."""

    priority: str = ""

    rank: int | None = None
    """The number of its priority; None where that is not known."""

    minimum: int = 0
    """How many pods have to be placed together."""

    tasks: int = 0
    """How many are counted in the demand."""

    gpus: int = 0
    levels: Levels = ()

    demand: GangDemand | None = None
    """None where nothing can be judged."""

    unread: tuple[UnreadPart, ...] = ()

    faults: tuple[str, ...] = ()
    """Full sentences on what keeps it waiting for ever, as its scheduler is known to behave."""

    shared_domains: tuple[SharedDomain, ...] = ()
    """More of that, on some nodes only."""

    report: str = ""
    """The scheduler's own words, the pod group's before a pod's."""

    def faults_on(self, nodes: Iterable[FitNode]) -> tuple[str, ...]:
        """What keeps it waiting for ever on these nodes, all that the scheduler has."""
        nodes = list(nodes) if self.shared_domains else []
        return (*self.faults, *(each.message for each in self.shared_domains if each.holds(nodes)))
