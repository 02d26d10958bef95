"""Pods that were asked to end on nodes that cannot confirm it.

A kubelet that is gone never removes its pods from the API server, so whoever waits for their end would wait
for ever: a teardown, or a task that is tried again. After the pool's time such a pod is deleted without its
kubelet only if the pool says so, because it may still run. Kubernetes itself does it for a node that is
removed or tainted out-of-service; both are a person's work, and so the group names them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cluster.interface import DeleteTarget
from cluster.kinds import POD
from scheduling.nodes.node_health import NodeHealth
from scheduling.sentences import plain_listing
from workflows.nodes.health import NodePolicy, node_policy, unhealthy_nodes
from workflows.reconcile.objects.plan import Delete
from workflows.reconcile.observe import observations
from workflows.reconcile.view.group_reader import LiveObject, ObjectsByName
from workflows.reconcile.view.group_view import GroupView

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsAway:
    """Pods that are being deleted on nodes that are away: ``lost`` on lost ones, ``waiting`` on others."""

    lost: tuple[LiveObject, ...] = ()
    waiting: tuple[LiveObject, ...] = ()
    nodes: Mapping[str, NodeHealth] = field(default_factory=dict)
    forced: bool = False
    pool: str = ""

    def steps(self, *, namespace: str) -> tuple[Delete, ...]:
        """The deletion of lost pods, if their pool allows it."""
        if not self.lost or not self.forced:
            return ()
        targets = tuple(DeleteTarget(pod.name, namespace, pod.uid) for pod in self.lost)
        return (Delete(POD, targets, forced=True),)

    @property
    def needs_help(self) -> bool:
        """Whether pods are lost and only a person can end them."""
        return bool(self.lost) and not self.forced

    @property
    def sentence(self) -> str:
        """Which nodes keep pods, and what a person can do; empty where there is none."""
        names = sorted(self.nodes)
        if not names:
            return ""
        states = " ".join(self.nodes[name].sentence(name) for name in names[:MOST_NAMED])
        listed = plain_listing(names, limit=MOST_NAMED)
        node = "it" if len(names) == 1 else "them"
        return (
            f"Nobody confirms the end of its pods there. {states} Remove {listed} from the cluster, taint "
            f"{node} {OUT_OF_SERVICE}, or set force_lost_pods in pool {self.pool}."
        )


def pods_away(view: GroupView, pods: ObjectsByName) -> PodsAway:
    """Which of these pods cannot end, by the nodes as last observed; none while nobody observes them."""
    ending = [pod for pod in pods.values() if pod.deleting and pod.node]
    if not ending or view.observer_is_silent:
        return PodsAway()
    names = {pod.node for pod in ending}
    unhealthy = unhealthy_nodes(observations.cluster_of(view), names, backend=view.backend)
    nodes = {name: node for name, node in unhealthy.items() if node.is_away}
    return _divided(view, ending, nodes, node_policy(view.placement.terms.pool)) if nodes else PodsAway()


def _divided(
    view: GroupView, ending: list[LiveObject], nodes: Mapping[str, NodeHealth], policy: NodePolicy
) -> PodsAway:
    away = [pod for pod in ending if pod.node in nodes]
    lost = [pod for pod in away if nodes[pod.node].is_lost(policy.lost_after, now=view.now)]
    return PodsAway(
        lost=tuple(lost),
        waiting=tuple(pod for pod in away if pod not in lost),
        nodes=nodes,
        forced=policy.force_lost_pods,
        pool=view.placement.terms.pool,
    )
