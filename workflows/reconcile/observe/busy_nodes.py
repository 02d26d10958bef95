"""Nodes that a scheduler assigned to a gang's tasks, and to which their pods cannot be bound.

A scheduler that assigns nodes binds no pod. Another tenant's pod may take a node in between, somebody may
cordon it, or something that the scheduler does not count uses it, such as an NVLink channel. It does not
notice, so after a while the group gives its room back.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta

from pools.models import ForeignUsage, Node
from pools.values.completeness import OTHERS, where_known
from scheduling.kubernetes_syntax import GPU
from scheduling.sentences import agree, count_of, plain_listing
from scheduling.topology.levels import HOSTNAME_LABEL
from workflows.explain.obstacles import MOST_NAMED, BusyNode
from workflows.lifecycle.pod_status import unbound_since
from workflows.models import ObservedPod
from workflows.reconcile.assess.follow import ObservedPods
from workflows.reconcile.observe.observations import cluster_of, named_groups, workflow_name
from workflows.reconcile.view.group_view import GroupView
from workflows.values.observation import PodSeen

BIND_LIMIT = timedelta(seconds=60)
"""For how long a pod may lack its assigned node: the work that uses it is often about to go."""
MOST_NODES = 20


def with_busy_nodes(view: GroupView, observed: ObservedPods) -> ObservedPods:
    """The same, with the assigned nodes that its pods cannot get. No query where all pods have theirs."""
    created_at = view.row.created_in_cluster_at
    if created_at is None or not view.keeps_nodes:
        return observed
    unbound = {
        task.name: (pod, max(since, created_at))
        for task in view.tasks
        if task.live and (pod := observed.pods.get(task.pod_name)) and (since := unbound_since(pod))
    }
    if not unbound:
        return observed
    users = _users(view, {str(pod.digest["assigned"]) for pod, _ in unbound.values()})
    busy = {
        pod.name: BusyNode(
            task=task,
            node=host,
            message=_refusal(pod),
            users=users.get(host, "What uses it is not known."),
            until=since + BIND_LIMIT,
        )
        for task, (pod, since) in unbound.items()
        for host in (str(pod.digest["assigned"]),)
    }
    return replace(observed, busy=busy)


def _refusal(pod: PodSeen) -> str:
    """What the scheduler that binds wrote on the pod."""
    conditions = pod.digest.get("conditions") or ()
    return next((str(c.get("message") or "") for c in conditions if c.get("type") == "PodScheduled"), "")


def _users(view: GroupView, hosts: Collection[str]) -> Mapping[str, str]:
    """What keeps pods off these nodes, and who uses them, by their label kubernetes.io/hostname."""
    cluster = cluster_of(view)
    rows = Node.objects.filter(cluster_id=cluster, **{f"labels__{HOSTNAME_LABEL}__in": sorted(hosts)})
    nodes = {node.name: node for node in rows.order_by("name")[:MOST_NODES]}
    foreign = ForeignUsage.objects.filter(
        where_known(OTHERS, of="cluster__"), cluster_id=cluster, node__in=nodes
    )
    usage = {row.node: row for row in foreign}
    workflows = _workflows(view, cluster, nodes)
    return {
        node.labels[HOSTNAME_LABEL]: text
        for name, node in nodes.items()
        if (text := _sentence(node, usage.get(name), workflows.get(name, [])))
    }


def _sentence(node: Node, foreign: ForeignUsage | None, workflows: Collection[str]) -> str:
    sentences = []
    if node.unschedulable or not node.ready:
        sentences.append("It is cordoned." if node.unschedulable else "It is not ready.")
    if foreign is not None and foreign.pods:
        gpus = f"{foreign.gpu} of its {node.allocatable.get(GPU, 0)} GPUs"
        verb = agree(foreign.pods, "uses", "use")
        sentences.append(f"{count_of(foreign.pods, 'pod')} of other tenants {verb} {gpus}.")
    if workflows:
        verb = agree(len(workflows), "has", "have")
        sentences.append(f"{plain_listing(sorted(workflows), limit=MOST_NAMED)} {verb} pods on it.")
    return " ".join(sentences)


def _workflows(view: GroupView, cluster: str, nodes: Collection[str]) -> dict[str, set[str]]:
    """The workflows of other groups with pods on these nodes, in words that every reader may know."""
    pods = ObservedPod.objects.filter(cluster_id=cluster, absent=False, node_name__in=nodes)
    pairs = set(pods.exclude(group_uuid=view.uuid).values_list("node_name", "group_uuid").order_by())
    groups = named_groups({group for _, group in pairs})
    by_node: dict[str, set[str]] = {}
    for node, group in pairs:
        if group in groups:
            by_node.setdefault(node, set()).add(workflow_name(view, groups[group]))
    return by_node
