"""What is free on every node during one cycle, with undo.

``idle`` is what nobody holds; ``releasing`` is held by pods that are on their way out. A pod that fits only
with ``releasing`` is *pipelined*: its place is kept, but nothing is bound in this cycle. Every change goes
through the journal, so a failed attempt rolls back to its checkpoint.

Devices differ ("Channels of ending pods"): those of a pod that was on its way out before the cycle are taken
until its claim is gone; those of a pod evicted in this cycle can be kept for another (``dynamicresources``).
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from localcluster.standins.affinity import holds_on
from localcluster.standins.kai import devices
from localcluster.standins.kai.devices import DeviceKey
from localcluster.standins.kai.messages import words
from localcluster.standins.kai.predicates import before_nodes
from localcluster.standins.kai.values import (
    GPU,
    Binding,
    Claim,
    ClaimAllocation,
    Device,
    Node,
    Pod,
    Shape,
    Snapshot,
)


@dataclass(slots=True)
class Placement:
    """A pod that was given a place; ``pipelined`` if it must wait for something to be released."""

    pod: Pod
    node: str
    pipelined: bool
    allocations: tuple[ClaimAllocation, ...] = ()
    reserve: tuple[Claim, ...] = ()

    def binding(self, group: str) -> Binding:
        """Return the decision to bind."""
        return Binding(self.pod, self.node, group, self.allocations, self.reserve)


@dataclass(slots=True)
class Board:
    """Mutable scratch of one cycle; ``snapshot`` itself is never changed."""

    snapshot: Snapshot
    nodes: dict[str, Node] = field(init=False)
    idle: dict[str, dict[str, int]] = field(init=False)
    releasing: dict[str, dict[str, int]] = field(init=False)
    devices: dict[str, list[Device]] = field(init=False)
    used: set[DeviceKey] = field(init=False)
    leaving: set[DeviceKey] = field(init=False)
    claims: dict[tuple[str, str], Claim] = field(init=False)
    journal: list[Placement] = field(init=False, default_factory=list)
    dra_gpu: set[str] = field(init=False)
    static: dict[tuple[str, Shape], str | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        shot = self.snapshot
        self.nodes = {node.name: node for node in sorted(shot.nodes, key=lambda node: node.name)}
        self.idle = {name: dict(node.allocatable) for name, node in self.nodes.items()}
        self.releasing = {name: {} for name in self.nodes}
        self.devices = {name: [] for name in self.nodes}
        for device in shot.devices:
            if device.node in self.devices:
                self.devices[device.node].append(device)
        self.dra_gpu = {device.node for device in shot.devices if "gpu" in device.driver}
        self.claims = {(claim.namespace, claim.name): claim for claim in shot.claims}
        self._count_pods(shot.pods)
        self._count_claims(shot)

    def _count_pods(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            if pod.node not in self.idle or pod.state in ("succeeded", "failed"):
                continue
            idle = self.idle[pod.node]
            for resource, amount in pod.shape.requests:
                idle[resource] = idle.get(resource, 0) - amount
            if pod.state == "releasing":
                self._add(self.releasing[pod.node], pod.shape, 1)

    def _count_claims(self, shot: Snapshot) -> None:
        self.used, self.leaving = set(), set()
        for claim in shot.claims:
            self.used.update(claim.allocated or ())

    @staticmethod
    def _add(amounts: dict[str, int], shape: Shape, sign: int) -> None:
        for resource, amount in shape.requests:
            amounts[resource] = amounts.get(resource, 0) + sign * amount

    def release(self, pods: Iterable[Pod]) -> None:
        """Count these pods as leaving, as if they had been evicted; not undone by ``rollback``."""
        uids = set()
        for pod in pods:
            uids.add(pod.uid)
            if pod.node in self.releasing:
                self._add(self.releasing[pod.node], pod.shape, 1)
        for claim in self.snapshot.claims:
            if claim.allocated and claim.reserved_for and set(claim.reserved_for) <= uids:
                self.used.difference_update(claim.allocated)
                self.leaving.update(claim.allocated)

    def free(self, node: str, resource: str) -> int:
        """Idle or releasing amount of one resource on one node."""
        return self.idle[node].get(resource, 0) + self.releasing[node].get(resource, 0)

    def checkpoint(self) -> int:
        """Return a mark to roll back to."""
        return len(self.journal)

    def rollback(self, mark: int) -> None:
        """Take back every placement made since ``mark``."""
        while len(self.journal) > mark:
            placement = self.journal.pop()
            self._add(self.idle[placement.node], placement.pod.shape, 1)
            for allocation in placement.allocations:
                self.used.difference_update(key for _, key in allocation.devices)

    def place(self, pod: Pod, node: str, *, pipelined: bool, allocations: list[ClaimAllocation]) -> None:
        """Give ``pod`` its place; the caller has checked that it fits."""
        self._add(self.idle[node], pod.shape, -1)
        for allocation in allocations:
            self.used.update(key for _, key in allocation.devices)
        reserved = tuple(
            claim
            for reference in pod.claims
            if (claim := self.claims.get((pod.namespace, reference.claim or "")))
            and claim.allocated is not None
            and pod.uid not in claim.reserved_for
        )
        self.journal.append(Placement(pod, node, pipelined, tuple(allocations), reserved))

    def refusal(self, node: str, shape: Shape) -> str | None:
        """Why this node may never take such a pod (selector, taints, cordon), or None; remembered."""
        refusal = self.static.get((node, shape), "")
        if refusal == "":
            refusal = self.static[(node, shape)] = self._refusal(self.nodes[node], shape)
        return refusal

    def _refusal(self, node: Node, shape: Shape) -> str | None:
        if node.unschedulable:  # whatever is tolerated
            return "node is unschedulable"
        if node.conditions:
            return f"node has {node.conditions[0]} condition"
        if any(node.labels.get(key) != value for key, value in shape.selector) or not holds_on(
            shape.affinity, name=node.name, labels=node.labels
        ):
            return "node(s) didn't match Pod's node affinity/selector"
        for taint in node.taints:
            if taint.effect != "PreferNoSchedule" and not any(t.tolerates(taint) for t in shape.tolerations):
                return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
        if node.name in self.dra_gpu and dict(shape.requests).get(GPU):
            return "node(s) expose GPUs through dynamic resource allocation only"
        return None

    def before_nodes(self, pod: Pod) -> str | None:
        """Why no node is looked at for this pod, or None."""
        return before_nodes(pod, self.snapshot)

    def lacking(self, node: str, shape: Shape, *, releasing: bool) -> list[str]:
        """Name the resources this node has too little of, in KAI's words."""
        idle, extra = self.idle[node], self.releasing[node] if releasing else {}
        short = [r for r, amount in shape.requests if amount > idle.get(r, 0) + extra.get(r, 0)]
        return [_shortage(resource) for resource in short]

    def allocate_claims(self, pod: Pod, node: str, *, releasing: bool) -> list[ClaimAllocation] | None:
        """Choose devices of ``node`` for the pod's claims, or None if one cannot be had there."""
        allocations: list[ClaimAllocation] = []
        busy = set(self.used) if releasing else self.used | self.leaving
        for reference in pod.claims:
            claim = self.claims[(pod.namespace, reference.claim or "")]
            if claim.allocated is not None:
                if claim.node not in (None, node):
                    return None
                continue
            chosen = devices.choose(
                claim, devices=self.devices[node], classes=self.snapshot.device_classes, allocated=busy
            )
            if chosen is None:
                return None
            busy |= {key for _, key in chosen}
            allocations.append(ClaimAllocation(claim, node, tuple(chosen)))
        return allocations

    def demands(self, pod: Pod) -> tuple[Hashable, ...]:
        """The demands of a pod's claims on a node; pods with equal shape and demands are interchangeable."""
        claims = (self.claims[(pod.namespace, reference.claim or "")] for reference in pod.claims)
        return tuple((claim.requests, claim.allocated, claim.node) for claim in claims)

    def missing_claim(self, pod: Pod) -> str | None:
        """Why the pod's claims cannot be looked at on any node yet, in KAI's words, or None."""
        for reference in pod.claims:
            if reference.claim is None:
                return (
                    f"no resource claim name found for pod {pod.namespace}/{pod.name} "
                    f"and claim reference {reference.reference}"
                )
            claim = self.claims.get((pod.namespace, reference.claim))
            if claim is None:
                name = f"{pod.namespace}/{reference.claim}"
                why = f'resourceclaim.resource.k8s.io "{reference.claim}" not found'
                return f"failed to get resource claim {name}: {why}"
            if claim.deleting:
                return f"resource claim {pod.namespace}/{reference.claim} is being deleted"
        return None


def _shortage(resource: str) -> str:
    if resource == "pods":
        return "node(s) pod number exceeded"
    return f"node(s) didn't have enough resources: {words(resource)}"
