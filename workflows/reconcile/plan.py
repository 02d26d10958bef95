"""What to do next about a group's objects: pure functions from what is desired and what is there.

A plan is a list of steps, done in order, and what must be waited for before the next plan. Creating:
Secrets and ComputeDomain, then its claim template is waited for, then Topologies, pod groups and service,
then pods. A pod made before its template would sit in the claim controller's backoff for minutes. Taking
down: pods, which are waited for until none is left; then the rest and the ComputeDomain, which NVIDIA's
controller ends at once even under running pods; then everything is waited for.

An empty wish means delete; nothing here returns early on it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from cluster.interface import DeleteTarget, Obj
from cluster.kinds import COMPUTE_DOMAIN, POD, SECRET, SERVICE, Kind
from pools.clusters.kinds import kind_of
from workflows.reconcile.group_reader import LiveObject, ObjectsByName, ObservedGroup

Wait = Literal["", "template", "ending", "old pods", "pods", "objects"]


@dataclass(frozen=True, slots=True)
class Create:
    kind: Kind
    objs: tuple[Obj, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    kind: Kind
    doomed: tuple[DeleteTarget, ...]


Step = Create | Delete


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """``left`` names what is waited for, for people."""

    steps: tuple[Step, ...] = ()
    wait: Wait = ""
    left: tuple[str, ...] = ()

    @property
    def finished(self) -> bool:
        return not self.steps and not self.wait


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredGroup:
    """What a group should have now. ``replaced`` maps pods to the old ones that must be gone first."""

    secrets: tuple[Obj, ...]
    compute_domain: Obj | None
    topologies: tuple[Obj, ...]
    pod_groups: tuple[Obj, ...]
    service: Obj | None
    pods: tuple[Obj, ...]
    replaced: dict[str, str]


def plan_create(desired: DesiredGroup, observed: ObservedGroup) -> GroupPlan:
    """The next steps towards everything that is desired."""
    if ending := _ending(desired, observed):
        return GroupPlan(wait="ending", left=ending)
    steps: tuple[Step, ...] = _missing(desired.secrets, observed.secrets)
    if desired.compute_domain is not None:
        domain = _missing((desired.compute_domain,), observed.domains)
        if domain or observed.template is None:
            left = (str(desired.compute_domain["spec"]["channel"]["resourceClaimTemplate"]["name"]),)
            return GroupPlan(steps=(*steps, *domain), wait="template", left=left)
    topologies = {name: LiveObject(name, "", deleting=False) for name in observed.topologies}
    steps += _missing(desired.topologies, topologies)
    steps += _missing(desired.pod_groups, observed.pod_groups)
    steps += _missing((desired.service,) if desired.service else (), observed.services)
    held = {pod: old for pod, old in desired.replaced.items() if old in observed.pods}
    doomed = _doomed(POD, [observed.pods[old] for old in held.values()], desired.pods)
    ready = tuple(pod for pod in desired.pods if pod["metadata"]["name"] not in held)
    steps += (*doomed, *_missing(ready, observed.pods))
    return GroupPlan(steps=steps, wait="old pods" if held else "", left=tuple(sorted(held.values())))


def _ending(desired: DesiredGroup, observed: ObservedGroup) -> tuple[str, ...]:
    """Wanted objects whose end somebody has begun: they must be gone before they can be made again."""
    names = {obj["metadata"]["name"] for obj in (*desired.secrets, *desired.pod_groups, *desired.pods)}
    names |= {obj["metadata"]["name"] for obj in (desired.compute_domain, desired.service) if obj}
    kinds = (observed.secrets, observed.domains, observed.pod_groups, observed.services, observed.pods)
    return tuple(sorted(f.name for many in kinds for f in many.values() if f.deleting and f.name in names))


def _missing(objs: Sequence[Obj], there: ObjectsByName) -> tuple[Create, ...]:
    absent = tuple(obj for obj in objs if obj["metadata"]["name"] not in there)
    return (Create(kind_of(absent[0]), absent),) if absent else ()


def plan_pods_down(pods: ObjectsByName, *, namespace: str, again: bool) -> GroupPlan:
    """Delete the pods that are not going yet (``again``: all of them), and wait for all."""
    going = [pod for pod in pods.values() if again or not pod.deleting]
    doomed = tuple(DeleteTarget(pod.name, namespace, pod.uid) for pod in going)
    return GroupPlan(
        steps=(Delete(POD, doomed),) if doomed else (),
        wait="pods" if pods else "",
        left=tuple(f"pod {name}" for name in sorted(pods)),
    )


def plan_rest_down(
    observed: ObservedGroup, *, namespace: str, pod_group: Kind | None, claims: Collection[str]
) -> GroupPlan:
    """Delete what is left besides pods, the ComputeDomain last, and wait for all of it."""
    order: list[tuple[Kind, ObjectsByName]] = [(SERVICE, observed.services), (SECRET, observed.secrets)]
    if pod_group is not None:
        order.insert(0, (pod_group, observed.pod_groups))
    order.append((COMPUTE_DOMAIN, observed.domains))
    steps: list[Step] = []
    left: list[str] = []
    for kind, many in order:
        left += [f"{kind.name} {name}" for name in sorted(many)]
        if doomed := tuple(
            DeleteTarget(found.name, namespace, found.uid) for found in many.values() if not found.deleting
        ):
            steps.append(Delete(kind, doomed))
    if observed.template is not None:
        left.append(f"ResourceClaimTemplate {observed.template.name}")
    left += [f"ResourceClaim {name}" for name in sorted(claims)]
    return GroupPlan(steps=tuple(steps), wait="objects" if left else "", left=tuple(left))


def _doomed(kind: Kind, found: Sequence[LiveObject], pods: Sequence[Obj]) -> tuple[Delete, ...]:
    namespace = pods[0]["metadata"]["namespace"] if pods else ""
    going = tuple(DeleteTarget(one.name, namespace, one.uid) for one in found if not one.deleting)
    return (Delete(kind, going),) if going else ()
