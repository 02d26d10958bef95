"""Bringing a gang's objects to the form that its row has, by the digests of both.

Three ways: the pod group is patched, pods are given the labels of another order, and pods with other pins are
made again as the same tries, for a pod's node labels cannot be edited. The old pods are deleted first; once
all are gone the pod group loses its constraints, never earlier, or a pod without the labels could be placed
anywhere; then the pods are made. If a pod got a node before the first was deleted, the pins of before stay.
An order is finished whatever is bound since, or a part of the gang would name a sub-group that is gone (KAI
v0.13 and v0.17 place such a gang in its new order in the next cycle). An easing changes the pod group alone,
so its marks tell what is left of that. It is left out once a pod is bound, and while it cannot be done the
turn goes on.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from cluster.errors import ObjectNotFound, WriteConflict
from cluster.interface import DeleteTarget
from cluster.kinds import POD
from pools.clusters.kinds import kind_of
from scheduling.gang.gang_form import GangForm
from web.crashpoints import reached
from workflows.lifecycle import patience
from workflows.lifecycle.form_proposers import REORDERED
from workflows.lifecycle.form_states import FormState
from workflows.lifecycle.statuses import TaskStatus
from workflows.reconcile.assess.follow import ObservedPods
from workflows.reconcile.form import edit
from workflows.reconcile.objects.apply import create_objects, retry_for
from workflows.reconcile.objects.create import create_pods_again, edits_pod_groups
from workflows.reconcile.objects.plan import Create
from workflows.reconcile.observe.binding import bound_pods
from workflows.reconcile.turn import ReadAgain, StepResult, Stop, Turn
from workflows.reconcile.view.group_reader import GroupReader
from workflows.reconcile.view.group_view import GroupView
from workflows.reconcile.view.leased import LeasedCluster
from workflows.services.changes import Change, NewForm, Note, OrderReached, PinsSettled
from workflows.values.form_marks import FormMarks
from workflows.values.observation import PINNED_SETS_ANNOTATION, PodSeen

UNFINISHED_SECONDS = 1.0
RECHECK_AFTER = timedelta(seconds=1)
AFTER_FAILURE = timedelta(seconds=10)


def waits(view: GroupView, observed: ObservedPods) -> bool:
    """Whether every task waits for a node, be it tried again or not."""
    pods = (observed.pods.get(task.pod_name) for task in view.tasks)
    tasks_wait = all(task.status == TaskStatus.SCHEDULING and not task.node_name for task in view.tasks)
    return tasks_wait and not any(pod is not None and pod.node_name for pod in pods)


def has_constraints_of(view: GroupView, form: GangForm) -> bool:
    """Whether the row's constraints are those of preferences that are eased so far."""
    rows, keys = view.row.constraints, [level.key for level in view.placement.terms.levels]
    return patience.are_of_stage(rows, begins=view.begins[form.stage]) and patience.are_of_levels(
        rows, keys=keys, count=form.preference_levels
    )


def bring_objects(turn: Turn) -> StepResult:
    """Do the next step for the part of its form in which objects are behind: pins first, an easing last.

    Returns the turn itself if none is.
    """
    if turn.view.row.repinning:
        return _bring_pins(turn)
    return _bring_order(turn) if turn.view.row.reordering else _bring_easing(turn)


def _unfinished(turn: Turn) -> Stop:
    """Stop for a moment: no other edit begins before the objects of this one are of one form."""
    return turn.due(within=UNFINISHED_SECONDS)


def _patch(turn: Turn, **marks: Any) -> bool | None:
    """Patch the pod group to these marks; whether it had others. None: somebody else edited it meanwhile."""
    try:
        return edit.bring(turn.view, edit.read(turn.view, turn.cluster), cluster=turn.cluster, **marks)
    except (WriteConflict, ObjectNotFound):
        return None


def _bring_pins(turn: Turn) -> ReadAgain | Stop:
    """Make the pods again that have other pins than the row, between them patch the pod group.

    A task may have ended by now, in a pod that got its node before it was to be deleted. It is left alone. A
    row without pins of before was put back from a backup: its pods may have pins that it does not know.
    """
    view = turn.view
    reader = GroupReader(turn.cluster, view.uuid, view.placement)
    digest, labels = FormMarks.of(view.form).pins, reader.pod_labels()
    present, expected = reader.pod_observations(), {task.pod_name for task in view.live}
    pods = {name: pod for name, pod in present.items() if name in expected}
    old = {  # of those that are being deleted no labels are read
        name: pod
        for name, pod in pods.items()
        if name not in labels or labels[name].get(PINNED_SETS_ANNOTATION, "") != digest
    }
    if view.row.other_form is None:
        return turn.moved(_compared(turn, present, old))
    if old:
        return _delete(turn, old)
    # where its pod groups cannot be edited, their constraints stay, beside the pins
    if edits_pod_groups(view) and _patch(turn, pins=digest) is None:
        return _unfinished(turn)
    missing = tuple(task for task in view.live if task.pod_name not in pods)
    failure = create_pods_again(view, missing, turn.cluster) if missing else None
    if failure is not None:
        return Stop(turn, failure)
    # until they are observed, those of before would seem to have vanished
    uids = {name: pod.uid for name, pod in turn.observed.pods.items() if not pod.absent}
    is_finished = not missing and all(uids.get(name) == pod.uid for name, pod in pods.items())
    return turn.moved([PinsSettled()]) if is_finished else _unfinished(turn)


def _compared(turn: Turn, present: Mapping[str, PodSeen], old: Mapping[str, PodSeen]) -> list[Change]:
    """Replace pods with pins that the row does not know if all wait for a node; else leave them alone.

    So are those beside pods of tries that the row does not know either, a group of several generations,
    whose sets were never pinned, and one whose pod groups cannot be edited and do not say their pins.
    """
    view, cluster = turn.view, turn.cluster
    if len(view.gangs) != 1 or not edits_pod_groups(view):
        return [PinsSettled()]
    live = edit.read(view, cluster)
    differs = live is not None and (old or edit.marks_of(view, live).pins != FormMarks.of(view.form).pins)
    is_known = present.keys() <= {task.pod_name for task in view.tasks}
    may_replace = differs and is_known and waits(view, turn.observed)
    if not may_replace or bound_pods(view, cluster, present).may_be_any:
        return [PinsSettled()]
    message = (
        "Its pods are kept in a place that this state of the database does not know of. They have no node "
        "and are made again."
    )
    return [
        NewForm(view.form, view.row.constraints, FormState.PINS),
        Note(key=f"pins:{view.now.isoformat()}", reason="PinsForgotten", message=message),
    ]


def _delete(turn: Turn, old: Mapping[str, PodSeen]) -> ReadAgain | Stop:
    """Delete these pods as they were read, so none that was bound since; if one is, pins stay as before."""
    waiting = {name: pod for name, pod in old.items() if not pod.deleting}
    if waiting and bound_pods(turn.view, turn.cluster, waiting).may_be_any:
        return turn.moved(_reverted(turn.view))
    targets = [
        DeleteTarget(pod.name, pod.namespace, pod.uid, pod.resource_version) for pod in waiting.values()
    ]
    outcomes = list(turn.cluster.delete_many(POD, targets, grace_seconds=0))
    reached("deleted-pods-to-pin")
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    refused = next((error for error in errors if not isinstance(error, WriteConflict)), None)
    return Stop(turn, retry_for(refused)) if refused else _unfinished(turn)


def _reverted(view: GroupView) -> list[Change]:
    """The pins of before again: pods that were deleted meanwhile are made for them."""
    before = GangForm.from_json(view.row.other_form or view.row.form)
    if before == view.form:  # decided because of a backup: no other pins are known
        return [PinsSettled()]
    message = (
        "A pod of the group got a node just before its pods were to be replaced: its pins stay as they were."
    )
    note = Note(key=f"pins-left-out:{view.now.isoformat()}", reason="PinsLeftOut", message=message)
    return [NewForm(before, edit.constraint_rows(view, before), FormState.PINS), note]


def _bring_order(turn: Turn) -> ReadAgain | Stop:
    """Patch the pod group, then label its pods, whatever is bound by now."""
    view = turn.view
    if len(view.gangs) != 1:  # its sets were never named in another order
        return turn.moved([OrderReached()])
    is_edited = _patch(turn, order=FormMarks.of(view.form).order)
    if is_edited is None:
        return _unfinished(turn)
    if is_edited:
        reached("reordered-podgroup")
    relabelled = _relabel(view, turn.cluster)
    reached("before-order-recorded")
    if not (view.form.order or is_edited or relabelled):  # looked at only because its database was put back
        return turn.moved([OrderReached()])
    message = "The pod group and all its pods are named in that order now."
    note = Note(key=f"ordered:{view.now.isoformat()}", reason=REORDERED, message=message)
    return turn.moved([OrderReached(), note])


def _relabel(view: GroupView, cluster: LeasedCluster) -> int:
    """Give each pod the labels of the row's order; returns how many had others."""
    present = GroupReader(cluster, view.uuid, view.placement).pod_labels()
    rendered = edit.gang_of(view, view.form).pods
    behind = {
        task.pod_name: lacking
        for task in view.tasks
        if (labels := present.get(task.pod_name)) is not None
        and (lacking := dict(rendered[task.name].labels.items() - labels.items()))
    }
    for number, (pod, labels) in enumerate(behind.items()):
        if number == (len(behind) + 1) // 2:
            reached("half-of-labels")
        try:
            edit.relabel(view, pod, labels, cluster=cluster)
        except ObjectNotFound:
            continue  # whatever replaces it is made in the row's order
    return len(behind)


def _bring_easing(turn: Turn) -> StepResult:
    """Bring the pod group to the row's easing unless a pod is bound, and the row's constraints to it."""
    view, cluster = turn.view, turn.cluster
    try:
        live = edit.read(view, cluster)
        if live is None:
            return turn
        before = edit.eased(view, live)
        after = replace(view.form, stage=max(before.stage, view.form.stage))
        bound = before != after and _is_any_bound(view, cluster)
        if bound:
            after = before
        elif before != after:  # its minimums are those of the whole gang again
            if not _create_topologies(view, before, after, cluster):
                return turn.at(view.now + AFTER_FAILURE)
            stage, levels = after.stage, after.preference_levels
            edit.bring(view, live, cluster=cluster, stage=stage, preference_levels=levels)
    except (WriteConflict, ObjectNotFound):
        return turn.at(view.now + RECHECK_AFTER)
    if has_constraints_of(view, after):
        return turn
    form = replace(view.form, preference_levels=after.preference_levels)
    news = NewForm(form, edit.constraint_rows(view, after))
    return turn.moved([news, *_notes(view, after, bound=bound)])


def _create_topologies(view: GroupView, before: GangForm, after: GangForm, cluster: LeasedCluster) -> bool:
    """Create the Topology objects that only the eased constraints name; whether all are there."""
    named = {topology["metadata"]["name"] for topology in edit.gang_of(view, before).topologies}
    new = tuple(t for t in edit.gang_of(view, after).topologies if t["metadata"]["name"] not in named)
    return not new or create_objects(Create(kind_of(new[0]), new), cluster=cluster) is None


def _notes(view: GroupView, form: GangForm, *, bound: bool) -> list[Note]:
    """The events for constraints that the row did not have."""
    rows, stage = edit.constraint_rows(view, form), view.form.stage
    if patience.are_of_stage(view.row.constraints, begins=view.begins[form.stage]):
        key = f"preferences-left-out:{view.now.isoformat()}"
        message = patience.preferences_stay_message()
        return [Note(key=key, reason="RelaxationLeftOut", message=message)] if bound else []
    if bound:
        message = patience.left_out_message(rows)
        return [Note(key=f"left-out:{stage}", reason="RelaxationLeftOut", message=message)]
    return [Note(key=f"caught-up:{stage}", reason="Relaxed", message=patience.caught_up_message(rows))]


def _is_any_bound(view: GroupView, cluster: LeasedCluster) -> bool:
    """Whether a pod of a latest try has a node or is about to get one, or its task has finished.

    Where BindRequests may not be read, a node alone counts: preferences that wait are relaxed all the same.
    """
    pods = GroupReader(cluster, view.uuid, view.placement).pod_observations()
    finished = any(not task.live and task.node_name for task in view.tasks)
    return finished or bool(bound_pods(view, cluster, pods).names)
