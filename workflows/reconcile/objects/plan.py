"""The next steps for a group's objects: pure functions from desired and observed objects to a plan.

A plan is a list of steps, done in order, and what must be waited for before the next plan. Creating:
Secrets and ComputeDomain, then wait for its claim template; then Topologies, pod groups and service; then,
where the scheduler admits a gang before its pods, wait for its room; then pods. A pod created before its
template would sit in the claim controller's backoff for minutes. The ComputeDomain comes before the room: a
gang that waits with one holds no GPU, and one that is admitted holds GPUs until its pods run. Taking down:
pods, then wait until none is left; then the other objects and the ComputeDomain, which NVIDIA's controller
ends at once even under running pods; then wait until all are gone.

No desired object means delete; nothing here returns early on it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, overload

from cluster.interface import DeleteTarget, Obj
from cluster.kinds import COMPUTE_DOMAIN, POD, SECRET, SERVICE, Kind
from pools.clusters.kinds import kind_of
from workflows.reconcile.view.group_reader import LiveGroup, LiveObject, ObjectsByName

Wait = Literal["", "template", "room", "ending", "old pods", "pods", "objects"]


class PodManifests(Sequence[Obj]):
    """Pods in order; each is rendered from its name whenever it is read, and a part of them is as unread.

    So only pods that are being sent take memory. A thousand are 3 MiB, and a worker creates several gangs at
    once.
    """

    def __init__(self, names: Iterable[str], render: Callable[[str], Obj]) -> None:
        self.names = tuple(names)
        self._render = render

    def without(self, names: Collection[str]) -> "PodManifests":
        return PodManifests((name for name in self.names if name not in names), self._render)

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, at: int) -> Obj: ...
    @overload
    def __getitem__(self, at: slice) -> "PodManifests": ...
    def __getitem__(self, at: int | slice) -> "Obj | PodManifests":
        if isinstance(at, slice):
            return PodManifests(self.names[at], self._render)
        return self._render(self.names[at])


@dataclass(frozen=True, slots=True)
class Create:
    kind: Kind
    objs: Sequence[Obj]


@dataclass(frozen=True, slots=True)
class Delete:
    """``forced``: at once, without the kubelet's word."""

    kind: Kind
    targets: tuple[DeleteTarget, ...]
    forced: bool = False


Step = Create | Delete


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """``remaining`` names, for people, the objects that ``wait`` waits for.

    ``notifies`` says that the observer, while it is at work, reports the end of some of them.
    ``deletes_all``: nothing of the group is left once its steps have deleted what they name.
    """

    steps: tuple[Step, ...] = ()
    wait: Wait = ""
    remaining: tuple[str, ...] = ()
    notifies: bool = False
    deletes_all: bool = False

    @property
    def finished(self) -> bool:
        return not self.steps and not self.wait


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredGroup:
    """The objects a group should have now."""

    namespace: str
    secrets: tuple[Obj, ...]
    compute_domain: Obj | None
    topologies: tuple[Obj, ...]
    pod_groups: tuple[Obj, ...]
    service: Obj | None

    parents: tuple[Obj, ...] = ()
    """What stands above the pod groups, in order of creation."""

    pods: PodManifests

    replaced: dict[str, tuple[str, ...]]
    """Pods of earlier tries that must be gone first, by the pod that replaces them."""

    present_pods: frozenset[str]
    """The pods of its tasks' present tries, also of those that need no object now."""

    only_pod_groups: frozenset[str] | None = None
    """All pod groups that there may be; None: those of other generations may be, too."""

    awaits_room: bool = False
    """Whether there are further pods, to be created once the scheduler has given them room."""

    def blocked_pods(self, pods: Collection[str]) -> dict[str, tuple[str, ...]]:
        """The pods that wait for others of these, and those others."""
        present = {pod: tuple(old for old in olds if old in pods) for pod, olds in self.replaced.items()}
        return {pod: olds for pod, olds in present.items() if olds}


def plan_create(desired: DesiredGroup, observed: LiveGroup) -> GroupPlan:
    """The next steps towards all desired objects.

    Pods of tries that the rows do not know come from a later state of the database, which was put back since:
    they go first, or two attempts would live at once. So do such pod groups, which may hold the room that the
    gang asks for.
    """
    if ending := _ending(desired, observed):
        return GroupPlan(wait="ending", remaining=ending)
    if (
        unknown := observed.pods.keys()
        - desired.present_pods
        - set(chain.from_iterable(desired.replaced.values()))
    ):
        targets = _not_deleting(observed.pods[name] for name in sorted(unknown))
        deletions = _deletes(POD, targets, namespace=desired.namespace)
        return GroupPlan(steps=deletions, wait="old pods", remaining=tuple(sorted(unknown)))
    if later := _later_pod_groups(desired, observed):
        deletions = _deletes(
            kind_of(desired.pod_groups[0]), _not_deleting(later), namespace=desired.namespace
        )
        return GroupPlan(steps=deletions, wait="ending", remaining=tuple(obj.name for obj in later))
    steps: tuple[Step, ...] = _missing(desired.secrets, observed.secrets)
    if desired.compute_domain is not None:
        domain = _missing((desired.compute_domain,), observed.domains)
        if domain or observed.template is None:
            template = str(desired.compute_domain["spec"]["channel"]["resourceClaimTemplate"]["name"])
            return GroupPlan(steps=(*steps, *domain), wait="template", remaining=(template,))
    topologies = {name: LiveObject(name, "", deleting=False) for name in observed.topologies}
    steps += _missing(desired.topologies, topologies)
    steps += _missing_parents(desired.parents, observed.parents)
    steps += _missing(desired.pod_groups, observed.pod_groups)
    steps += _missing((desired.service,) if desired.service else (), observed.services)
    blocked = desired.blocked_pods(observed.pods)
    remaining = tuple(sorted(chain.from_iterable(blocked.values())))
    old_pods = _not_deleting(observed.pods[old] for old in remaining)
    steps += _deletes(POD, old_pods, namespace=desired.namespace)
    if absent := desired.pods.without(blocked.keys() | observed.pods.keys()):
        steps += (Create(POD, absent),)
    wait: Wait = "old pods" if blocked else "room" if desired.awaits_room else ""
    return GroupPlan(steps=steps, wait=wait, remaining=remaining)


def _later_pod_groups(desired: DesiredGroup, observed: LiveGroup) -> list[LiveObject]:
    """The pod groups that may not be there, by name."""
    if desired.only_pod_groups is None:
        return []
    return [
        observed.pod_groups[name] for name in sorted(observed.pod_groups.keys() - desired.only_pod_groups)
    ]


def _ending(desired: DesiredGroup, observed: LiveGroup) -> tuple[str, ...]:
    """Desired objects that are being deleted: they must be gone before they can be created again."""
    named = (*desired.secrets, *desired.parents, *desired.pod_groups)
    names = {obj["metadata"]["name"] for obj in named}
    names |= {*desired.pods.names}
    names |= {obj["metadata"]["name"] for obj in (desired.compute_domain, desired.service) if obj}
    kinds = (
        observed.secrets,
        observed.domains,
        observed.pod_groups,
        *observed.parents.values(),
        observed.services,
        observed.pods,
    )
    return tuple(
        sorted(obj.name for objs in kinds for obj in objs.values() if obj.deleting and obj.name in names)
    )


def _missing(objs: Sequence[Obj], existing: ObjectsByName) -> tuple[Create, ...]:
    absent = tuple(obj for obj in objs if obj["metadata"]["name"] not in existing)
    return (Create(kind_of(absent[0]), absent),) if absent else ()


def _missing_parents(parents: Sequence[Obj], existing: Mapping[Kind, ObjectsByName]) -> tuple[Create, ...]:
    by_kind: dict[Kind, list[Obj]] = {}
    for obj in parents:
        by_kind.setdefault(kind_of(obj), []).append(obj)
    return tuple(step for kind, objs in by_kind.items() for step in _missing(objs, existing.get(kind, {})))


def plan_pods_down(pods: ObjectsByName, *, namespace: str, again: bool) -> GroupPlan:
    """Delete the pods that are not being deleted yet (``again``: all of them), and wait for all."""
    targets = [pod for pod in pods.values() if again or not pod.deleting]
    return GroupPlan(
        steps=_deletes(POD, targets, namespace=namespace),
        wait="pods" if pods else "",
        notifies=bool(pods),
        remaining=tuple(f"pod {name}" for name in sorted(pods)),
    )


def plan_rest_down(
    observed: LiveGroup, *, namespace: str, pod_group: Kind | None, claims: Collection[str]
) -> GroupPlan:
    """Delete the objects other than pods, the ComputeDomain last, and wait for all of them."""
    order: list[tuple[Kind, ObjectsByName]] = [
        *([(pod_group, observed.pod_groups)] if pod_group is not None else []),
        *reversed(list(observed.parents.items())),
        (SERVICE, observed.services),
        (SECRET, observed.secrets),
        (COMPUTE_DOMAIN, observed.domains),
    ]
    steps: list[Delete] = []
    remaining: list[str] = []
    for kind, objs in order:
        remaining += [f"{kind.name} {name}" for name in sorted(objs)]
        steps += _deletes(kind, _not_deleting(objs.values()), namespace=namespace)
    if observed.template is not None:
        remaining.append(f"ResourceClaimTemplate {observed.template.name}")
    remaining += [f"ResourceClaim {name}" for name in sorted(claims)]
    return GroupPlan(
        steps=tuple(steps),
        wait="objects" if remaining else "",
        remaining=tuple(remaining),
        notifies=bool(observed.domains or observed.pod_groups or observed.template),
        deletes_all=not observed.domains and sum(len(step.targets) for step in steps) == len(remaining),
    )


def _deletes(kind: Kind, objs: Iterable[LiveObject], *, namespace: str) -> tuple[Delete, ...]:
    """A step that deletes these objects; none for no object."""
    targets = tuple(DeleteTarget(obj.name, namespace, obj.uid) for obj in objs)
    return (Delete(kind, targets),) if targets else ()


def _not_deleting(objs: Iterable[LiveObject]) -> list[LiveObject]:
    return [obj for obj in objs if not obj.deleting]
