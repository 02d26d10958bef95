"""Order: naming the sets of a waiting gang in an order in which its scheduler places it.

``services.orders`` proposes an order to a group, and ``lifecycle.ordering`` decides. The row has the order
first, with a mark that its objects are still to be named in it; then the pod group is patched, then its pods.
Every reconciliation may be the first after a crash: the steps left follow from the row's mark and the objects
as they are. KAI v0.13 and v0.17 place such a gang in its new order in the next cycle.
"""

from collections.abc import Mapping
from dataclasses import replace

from cluster.errors import ObjectNotFound, WriteConflict
from scheduling.backends.registry import scheduler_backend
from scheduling.gang import set_order
from scheduling.gang.set_order import SetOrder
from web.crashpoints import reached
from workflows.lifecycle.form_states import FormState
from workflows.lifecycle.ordering import REORDERED, OrderAction, OrderFacts, next_order_action
from workflows.reconcile.assess.follow import ObservedPods
from workflows.reconcile.form import edit
from workflows.reconcile.observe.binding import bound_pods
from workflows.reconcile.turn import ReadAgain, StepResult, Stop, Turn
from workflows.reconcile.view.group_reader import GroupReader
from workflows.reconcile.view.group_view import GroupView
from workflows.reconcile.view.leased import LeasedCluster
from workflows.services.changes import Change, NewConstraints, NewForm, Note, OrderReached, ProposalDropped
from workflows.values.form_marks import FormMarks


def advance_order(turn: Turn) -> StepResult:
    """Do the next step in naming the group's sets in another order. Raises ClusterError."""
    view = turn.view
    if view.proposed_form is None and not view.row.reordering:
        return turn
    action = next_order_action(_facts(view, turn.observed))
    if action == OrderAction.FINISH:
        return _finish(turn)
    if action == OrderAction.DROP:
        return turn.moved([ProposalDropped()])
    if action == OrderAction.BEGIN:
        turn.record(_beginning(view, turn.cluster))
        reached("after-order-decision")
        return ReadAgain()
    return turn


def _facts(view: GroupView, observed: ObservedPods) -> OrderFacts:
    pods = [observed.pods.get(task.pod_name) for task in view.tasks]
    existing = [pod for pod in pods if pod is not None and not pod.absent]
    proposed = view.proposed_form
    return OrderFacts(
        is_proposed=proposed is not None and proposed == replace(view.form, order=proposed.order),
        differs=proposed != view.form,
        reordering=view.row.reordering,
        is_intact=len(existing) == len(pods)
        and not any(pod.deleting for pod in existing)
        and all(task.live and not task.replaces for task in view.tasks),
        is_bound=any(pod.node_name for pod in existing) or any(task.node_name for task in view.tasks),
    )


def _beginning(view: GroupView, cluster: LeasedCluster) -> list[Change]:
    """The decision, on the cluster as it is now: the observer's rows may lack what was bound since."""
    form = view.proposed_form
    if form is None or not _may_begin(view, cluster):
        return [ProposalDropped()]
    message = (
        f'Group "{view.row.name}" found no place in the order of its sets, and there is room now in another '
        f"one. They are placed in this order from now on: {_words(form.order)}."
    )
    note = Note(key=f"order:{view.now.isoformat()}", reason="SetsOrdered", message=message)
    return [NewForm(form, FormState.ORDER), NewConstraints(edit.constraint_rows(view, form)), note]


def _may_begin(view: GroupView, cluster: LeasedCluster) -> bool:
    """Whether no pod has a node or is about to get one, and the pod group is as the row has it."""
    scheduler = scheduler_backend(view.placement.terms.scheduler_type)
    live = edit.read(view, cluster)
    if not scheduler.traits.orders_sets or live is None or edit.is_resized(live):
        return False
    if edit.marks_of(view, live).order != FormMarks.of(view.form).order:
        return False
    pods = GroupReader(cluster, view.uuid, view.placement).pod_observations()
    expected = {task.pod_name for task in view.tasks}
    is_whole = expected <= pods.keys() and not any(pods[name].deleting for name in expected)
    return is_whole and not bound_pods(view, cluster, pods).may_be_any


def _finish(turn: Turn) -> ReadAgain | Stop:
    """Bring the pod group, then its pods, to the row's order, whatever is bound by now."""
    view = turn.view
    if len(view.renderer.gangs) != 1:  # its sets were never named in another order
        return turn.moved([OrderReached()])
    try:
        is_edited = _reorder_pod_group(view, turn.cluster)
    except (WriteConflict, ObjectNotFound):
        return edit.unfinished(turn)
    relabelled = _relabel(view, turn.cluster)
    reached("before-order-recorded")
    if not (view.form.order or is_edited or relabelled):  # looked at only because its database was put back
        return turn.moved([OrderReached()])
    message = "The pod group and all its pods are named in that order now."
    note = Note(key=f"ordered:{view.now.isoformat()}", reason=REORDERED, message=message)
    return turn.moved([OrderReached(), note])


def _reorder_pod_group(view: GroupView, cluster: LeasedCluster) -> bool:
    """Bring the pod group to the row's order; whether it had another."""
    live, order = edit.read(view, cluster), FormMarks.of(view.form).order
    if live is None:  # it is made again in the row's order
        return False
    marks = edit.marks_of(view, live)
    if marks.order == order:
        return False
    edit.bring(view, live, replace(marks, order=order), cluster=cluster)
    reached("reordered-podgroup")
    return True


def _relabel(view: GroupView, cluster: LeasedCluster) -> int:
    """Give each pod the labels of the row's order; returns how many had others."""
    behind = _behind(view, GroupReader(cluster, view.uuid, view.placement).pod_labels())
    for number, (pod, labels) in enumerate(behind.items()):
        if number == (len(behind) + 1) // 2:
            reached("half-of-labels")
        try:
            edit.relabel(view, pod, labels, cluster=cluster)
        except ObjectNotFound:
            continue  # whatever replaces it is made in the row's order
    return len(behind)


def _behind(view: GroupView, pods: Mapping[str, Mapping[str, str]]) -> dict[str, Mapping[str, str]]:
    """The labels of the row's order that a pod lacks, by pod."""
    (gang,) = view.gangs.values()
    behind: dict[str, Mapping[str, str]] = {}
    for task in view.tasks:
        rendered, present = gang.pods[task.name].labels, pods.get(task.pod_name)
        if present is None:
            continue
        if labels := {key: label for key, label in rendered.items() if present.get(key) != label}:
            behind[task.pod_name] = labels
    return behind


def _words(order: SetOrder) -> str:
    return set_order.sentence(order) or "the usual one"
