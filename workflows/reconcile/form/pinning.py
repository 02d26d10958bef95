"""Pins: keeping sets of a waiting gang in a domain by node labels (``scheduling.gang.pins``).

``services.orders`` proposes pins. A pod's node labels cannot be edited, so its pods are deleted and made
again as the same tries. The row has the pins first, with those of before; then the old pods are deleted; once
all are gone the pod group loses its constraints, never earlier, or a pod without the labels could be placed
anywhere; then the pods are made. Every reconciliation may be the first after a crash: pods and pod group have
a digest of their pins. If a pod got a node before the first was deleted, the pins of before stay.
"""

from collections.abc import Mapping
from dataclasses import replace

from cluster.errors import ObjectNotFound, WriteConflict
from cluster.interface import DeleteTarget
from cluster.kinds import POD
from scheduling.gang import pins as pinning
from scheduling.gang.gang_form import GangForm
from web.crashpoints import reached
from workflows.lifecycle.form_states import FormState
from workflows.lifecycle.pin_words import PINNED, UNPINNED, pins_message, unpinned_message
from workflows.lifecycle.statuses import TaskStatus
from workflows.reconcile.assess.follow import ObservedPods
from workflows.reconcile.form import edit
from workflows.reconcile.objects.apply import retry_for
from workflows.reconcile.objects.create import create_pods_again, edits_pod_groups
from workflows.reconcile.observe.binding import bound_pods
from workflows.reconcile.turn import ReadAgain, StepResult, Stop, Turn
from workflows.reconcile.view.group_reader import GroupReader
from workflows.reconcile.view.group_view import GroupView
from workflows.reconcile.view.leased import LeasedCluster
from workflows.services.changes import Change, NewConstraints, NewForm, Note, PinsSettled
from workflows.values.observation import PINNED_SETS_ANNOTATION, PodSeen


def advance_pins(turn: Turn) -> StepResult:
    """Do the next step in pinning the group's sets. Raises ClusterError."""
    view, proposed = turn.view, turn.view.proposed_form
    if view.row.repinning:
        return _finish(turn)
    if proposed is None or proposed.pins == view.form.pins:
        return turn
    turn.record(_beginning(view, replace(view.form, pins=proposed.pins), turn.observed, turn.cluster))
    reached("after-pin-decision")
    return ReadAgain()


def _beginning(
    view: GroupView, form: GangForm, observed: ObservedPods, cluster: LeasedCluster
) -> list[Change]:
    """The decision, on the cluster as it is now; nothing is begun once a pod may have a node."""
    gangs = view.gangs_of(form)
    if len(gangs) != 1 or not _waits(view, observed) or _may_be_bound(view, cluster):
        return [PinsSettled()]
    (gang,), pins = gangs.values(), form.pins
    message = pins_message(pins, group=view.row.name) if pins else unpinned_message(group=view.row.name)
    note = Note(key=f"pins:{view.now.isoformat()}", reason=PINNED if pins else UNPINNED, message=message)
    return [
        NewForm(form, FormState.PINS),
        NewConstraints([entry.as_json() for entry in gang.constraints]),
        note,
    ]


def _waits(view: GroupView, observed: ObservedPods) -> bool:
    """Whether every task waits for a node, be it tried again or not."""
    pods = (observed.pods.get(task.pod_name) for task in view.tasks)
    tasks_wait = all(task.status == TaskStatus.SCHEDULING and not task.node_name for task in view.tasks)
    return tasks_wait and not any(pod is not None and pod.node_name for pod in pods)


def _may_be_bound(view: GroupView, cluster: LeasedCluster) -> bool:
    """Whether a pod has a node, or may be about to get one, or is missing."""
    pods = GroupReader(cluster, view.uuid, view.placement).pod_observations()
    is_whole = {task.pod_name for task in view.tasks} <= pods.keys()
    return not is_whole or bound_pods(view, cluster, pods).may_be_any


def _finish(turn: Turn) -> ReadAgain | Stop:
    """Replace the pods that have other pins than the row, and bring the pod group to the row's.

    A row without pins of before was put back from a backup: its pods may have pins that it does not know.
    """
    view = turn.view
    reader = GroupReader(turn.cluster, view.uuid, view.placement)
    expected = {task.pod_name for task in view.tasks}
    digest, labels = pinning.digest_of(view.form.pins), reader.pod_labels()
    present = reader.pod_observations()
    pods = {name: pod for name, pod in present.items() if name in expected}
    old = {name: pod for name, pod in pods.items() if _mark(labels, name) != digest}
    if view.row.other_form is None:
        return turn.moved(_compared(turn, present, old))
    if old:
        return _delete(turn, old)
    try:
        _bring_pod_group(view, digest, turn.cluster)
    except (WriteConflict, ObjectNotFound):
        return edit.unfinished(turn)
    missing = tuple(task for task in view.tasks if task.pod_name not in pods)
    failure = create_pods_again(view, missing, turn.cluster) if missing else None
    if failure is not None:
        return Stop(turn, failure)
    is_finished = not missing and _are_observed(pods, turn.observed)
    return turn.moved([PinsSettled()]) if is_finished else edit.unfinished(turn)


def _compared(turn: Turn, present: Mapping[str, PodSeen], old: Mapping[str, PodSeen]) -> list[Change]:
    """Replace pods with pins that the row does not know if all wait for a node; else leave them alone.

    So are those beside pods of tries that the row does not know either, a group of several generations,
    whose sets were never pinned, and one whose pod groups cannot be edited and do not say their pins.
    """
    view, cluster = turn.view, turn.cluster
    if len(view.gangs) != 1 or not edits_pod_groups(view):
        return [PinsSettled()]
    live, digest = edit.read(view, cluster), pinning.digest_of(view.form.pins)
    differs = live is not None and (old or edit.marks_of(view, live).pins != digest)
    is_known = present.keys() <= {task.pod_name for task in view.tasks}
    if (
        not (differs and is_known and _waits(view, turn.observed))
        or bound_pods(view, cluster, present).may_be_any
    ):
        return [PinsSettled()]
    message = (
        "Its pods are kept in a place that this state of the database does not know of. They have no node "
        "and are made again."
    )
    return [
        NewForm(view.form, FormState.PINS),
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
    return Stop(turn, retry_for(refused)) if refused else edit.unfinished(turn)


def _are_observed(pods: Mapping[str, PodSeen], observed: ObservedPods) -> bool:
    """Whether all these pods were observed; until then those of before would seem to have vanished."""
    uids = {name: pod.uid for name, pod in observed.pods.items() if not pod.absent}
    return all(uids.get(name) == pod.uid for name, pod in pods.items())


def _mark(labels: Mapping[str, Mapping[str, str]], name: str) -> str | None:
    """The digest of a pod's pins; None for a pod that is being deleted."""
    return labels[name].get(PINNED_SETS_ANNOTATION, "") if name in labels else None


def _bring_pod_group(view: GroupView, digest: str, cluster: LeasedCluster) -> None:
    if not edits_pod_groups(view):  # its constraints stay, beside the pins
        return
    live = edit.read(view, cluster)
    if live is None:  # it is made again as the row has it
        return
    marks = edit.marks_of(view, live)
    if marks.pins != digest:
        edit.bring(view, live, replace(marks, pins=digest), cluster=cluster)


def _reverted(view: GroupView) -> list[Change]:
    """The pins of before again: pods that were deleted meanwhile are made for them."""
    before = GangForm.from_json(view.row.other_form or view.row.form)
    if before == view.form:  # decided because of a backup: no other pins are known
        return [PinsSettled()]
    message = (
        "A pod of the group got a node just before its pods were to be replaced: its pins stay as they were."
    )
    note = Note(key=f"pins-left-out:{view.now.isoformat()}", reason="PinsLeftOut", message=message)
    return [NewForm(before, FormState.PINS), NewConstraints(edit.constraint_rows(view, before)), note]
