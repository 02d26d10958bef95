"""Recording the health of the nodes of a group's pods: a condition, and an event when it changes."""

from collections.abc import Mapping

from pools import conditions
from pools.conditions import Condition
from scheduling.nodes.node_health import NodeHealth, NodeState
from scheduling.sentences import plain_listing
from workflows.reconcile.assess.follow import ObservedPods
from workflows.reconcile.turn import Turn
from workflows.services.attempt_rows import NODES_HEALTHY
from workflows.services.changes import Change, Note

MOST_NAMED = 5
_REASONS = {
    NodeState.CORDONED: "NodeCordoned",
    NodeState.UNHEALTHY: "NodeUnhealthy",
    NodeState.NOT_READY: "NodeNotReady",
    NodeState.UNREACHABLE: "NodeUnreachable",
}
_SEVERITY = list(NodeState)


def ill_nodes(observed: ObservedPods) -> dict[str, NodeHealth]:
    """The nodes of present pods that are not healthy, the worst first."""
    if not observed.nodes:
        return {}
    names = {pod.node_name for pod in observed.pods.values() if not pod.absent}
    ill = [(name, node) for name, node in observed.nodes.items() if name in names]
    return dict(sorted(ill, key=lambda entry: (-_SEVERITY.index(entry[1].state), entry[0])))


def condition_of(nodes: Mapping[str, NodeHealth]) -> Condition:
    """The condition for these nodes, which are those that are not healthy, the worst first."""
    if not nodes:
        return Condition(type=NODES_HEALTHY, status="True", reason="AllNodesHealthy", message="")
    named = [node.sentence(name) for name, node in list(nodes.items())[:MOST_NAMED]]
    others = list(nodes)[MOST_NAMED:]
    more = [f"Others: {plain_listing(others, limit=MOST_NAMED)}."] if others else []
    worst = next(iter(nodes.values()))
    return Condition(
        type=NODES_HEALTHY,
        status="False",
        reason=_REASONS[worst.state],
        message=" ".join([*named, *more]),
    )


def record_node_health(turn: Turn) -> Turn:
    """Keep the condition, which begins with the first node that is not healthy; each change is an event.

    While no observer is at work it stays as it was.
    """
    if turn.observed.observer_silent:
        return turn
    view, condition = turn.view, condition_of(ill_nodes(turn.observed))
    before = conditions.status_of(view.row.conditions, NODES_HEALTHY)
    if not conditions.differs(view.row.conditions, condition) or (condition.status == "True" and not before):
        return turn
    changes: list[Change] = [condition]
    message = condition.message or "All its nodes are healthy again."
    changes.append(
        Note(
            key=f"nodes:{condition.reason}:{view.now.isoformat()}",
            reason=condition.reason,
            message=f"Group {view.row.name}: {message}",
            warning=condition.status == "False",
        )
    )
    turn.record(changes)
    return turn
