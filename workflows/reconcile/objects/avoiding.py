"""The nodes that an attempt avoids, decided before its first object is created.

The row has those on which the group lost a task last, the newest first. None is avoided so far that the group
could never be placed: then the oldest are used after all. The decision is an event.
"""

from scheduling.nodes.suspects import most_avoided
from scheduling.sentences import plain_listing
from workflows.feasibility.verdict.avoidance import UsableNodes
from workflows.nodes.hosts import host_names
from workflows.reconcile.observe import observations
from workflows.reconcile.turn import StepResult, Turn
from workflows.selectors import values_on_any_node
from workflows.services.changes import NewAvoidedNodes, Note

MOST_NAMED = 5


def avoid_nodes(turn: Turn) -> StepResult:
    """Record the nodes that this attempt avoids, if the row has more of them."""
    view = turn.view
    nodes = list(view.row.avoided_nodes)
    if not nodes or view.row.touched_cluster:
        return turn
    cluster = observations.cluster_of(view)
    usable = UsableNodes([values_on_any_node(view.row, view.placement)], cluster=cluster)
    avoided = most_avoided(host_names(nodes, cluster=cluster), never=usable.never_without)
    if len(avoided) == len(nodes):
        return turn
    used = plain_listing(sorted(nodes[len(avoided) :]), limit=MOST_NAMED)
    message = f"Group {view.row.name} uses {used} again: without them it could never be placed."
    note = Note(key=f"used-again:{view.row.attempt_number}", reason="NodesUsedAgain", message=message)
    return turn.moved([NewAvoidedNodes(nodes[: len(avoided)]), note])
