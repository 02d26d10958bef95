"""Pins: keeping sets of a waiting gang in a domain by node labels (``scheduling.pins``).

``services.orders`` proposes pins. A pod's node labels cannot be edited, so its pods are deleted and made
again as the same tries. The row has the pins first, with those of before; then the old pods are deleted; once
all are gone the pod group loses its constraints, never earlier, or a pod without the labels could be placed
anywhere; then the pods are made. Every reconciliation may be the first after a crash: pods and pod group have
a digest of their pins. If a pod got a node before the first was deleted, the pins of before stay.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from cluster.errors import ObjectNotFound, RequestForbidden, WriteConflict
from cluster.interface import DeleteTarget
from cluster.kinds import POD
from pools.clusters.kinds import as_kind
from scheduling import pins as pinning
from scheduling.backends.base import OrdersSets
from scheduling.backends.registry import scheduler_backend
from web.crashpoints import reached
from workflows.lifecycle.pinning import PINNED, UNPINNED, pins_message, unpinned_message
from workflows.lifecycle.statuses import TaskStatus
from workflows.reconcile import edit
from workflows.reconcile.apply import create_objects
from workflows.reconcile.create import desired_group
from workflows.reconcile.edit import EditProgress
from workflows.reconcile.follow import ObservedPods
from workflows.reconcile.group_reader import GroupReader, ObjectsByName
from workflows.reconcile.group_view import GroupView
from workflows.reconcile.leased import LeasedCluster
from workflows.reconcile.plan import Create
from workflows.services.lease import Lease
from workflows.services.record import Change, NewConstraints, NewPins, Note, PinsSettled, record
from workflows.values.observation import PINNED_SETS_ANNOTATION


def advance_pins(
    view: GroupView, observed: ObservedPods, *, lease: Lease, cluster: LeasedCluster
) -> EditProgress:
    """Do the next step in pinning the group's sets. Raises ClusterError."""
    if view.row.repinning:
        return _finish(view, observed, lease, cluster)
    if view.row.other_pins is None or view.row.reordering:
        return EditProgress()
    record(lease, _beginning(view, observed, cluster))
    reached("after-pin-decision")
    return EditProgress(moved=True)


def _beginning(view: GroupView, observed: ObservedPods, cluster: LeasedCluster) -> list[Change]:
    """The decision, on the cluster as it is now; nothing is begun once a pod may have a node."""
    pins = pinning.from_json(view.row.other_pins or [])
    gangs = view.pinned(pins).gangs
    may_begin = pins != view.pins and len(gangs) == 1 and _waits(view, observed)
    if not may_begin or _may_be_bound(view, cluster, complete=True):
        return [PinsSettled()]
    (gang,) = gangs.values()
    message = pins_message(pins, group=view.row.name) if pins else unpinned_message(group=view.row.name)
    note = Note(key=f"pins:{view.now.isoformat()}", reason=PINNED if pins else UNPINNED, message=message)
    return [NewPins(pins), NewConstraints([entry.as_json() for entry in gang.constraints]), note]


def _waits(view: GroupView, observed: ObservedPods) -> bool:
    """Whether every task waits for a node, be it tried again or not."""
    pods = (observed.pods.get(task.pod_name) for task in view.tasks)
    tasks_wait = all(task.status == TaskStatus.SCHEDULING and not task.node_name for task in view.tasks)
    return tasks_wait and not any(pod is not None and pod.node_name for pod in pods)


def _may_be_bound(view: GroupView, cluster: LeasedCluster, *, complete: bool) -> bool:
    """Whether a pod has a node or is about to get one; with ``complete`` also if a pod is missing."""
    scheduler = scheduler_backend(view.placement.scheduler_type)
    if not isinstance(scheduler, OrdersSets):
        return True
    reader = GroupReader(cluster, view.uuid, view.placement)
    pods = reader.pod_observations()
    try:
        chosen = reader.bind_requests(as_kind(scheduler.bind_request))
    except RequestForbidden:
        return True
    expected = {task.pod_name for task in view.tasks}
    if complete and not expected <= pods.keys():
        return True
    return any(pod.node_name or name in chosen for name, pod in pods.items() if name in expected)


def _finish(view: GroupView, observed: ObservedPods, lease: Lease, cluster: LeasedCluster) -> EditProgress:
    """Replace the pods that have other pins than the row, and bring the pod group to the row's."""
    reader = GroupReader(cluster, view.uuid, view.placement)
    expected = {task.pod_name for task in view.tasks}
    pods = {name: pod for name, pod in reader.pods().items() if name in expected}
    digest = pinning.digest_of(view.pins)
    labels = reader.pod_labels()
    old = [pod for name, pod in pods.items() if _mark(labels, name) != digest]
    if len(old) == len(expected) and _may_be_bound(view, cluster, complete=False):
        record(lease, _reverted(view))
        return EditProgress(moved=True)
    if old:
        namespace = view.placement.namespace
        targets = [DeleteTarget(pod.name, namespace, pod.uid) for pod in old if not pod.deleting]
        list(cluster.delete_many(POD, targets, grace_seconds=0))
        reached("deleted-pods-to-pin")
        return EditProgress(unfinished=True)
    try:
        _bring_pod_group(view, digest, cluster)
    except (WriteConflict, ObjectNotFound):
        return EditProgress(unfinished=True)
    missing = tuple(task for task in view.tasks if task.pod_name not in pods)
    if missing and create_objects(Create(POD, desired_group(view, missing).pods), cluster=cluster):
        return EditProgress(unfinished=True)
    if not _are_observed(pods, observed, expected):
        return EditProgress(unfinished=True)
    record(lease, [PinsSettled()])
    return EditProgress(moved=True)


def _are_observed(pods: ObjectsByName, observed: ObservedPods, expected: Collection[str]) -> bool:
    """Whether all new pods were observed; until then the old ones would seem to have vanished."""
    uids = {name: pod.uid for name, pod in observed.pods.items() if not pod.absent}
    return expected == pods.keys() and all(uids.get(name) == pod.uid for name, pod in pods.items())


def _mark(labels: Mapping[str, Mapping[str, str]], name: str) -> str | None:
    """The digest of a pod's pins; None for a pod that is being deleted."""
    return labels[name].get(PINNED_SETS_ANNOTATION, "") if name in labels else None


def _bring_pod_group(view: GroupView, digest: str, cluster: LeasedCluster) -> None:
    live = edit.read(view, cluster)
    if live is None or edit.pins_mark(live) == digest:  # one that is gone is made again as the row has it
        return
    edit.bring(view, live, replace(edit.form_of(view, live), pins=digest), cluster=cluster)


def _reverted(view: GroupView) -> list[Change]:
    before = pinning.from_json(view.row.other_pins or [])
    (gang,) = view.pinned(before).gangs.values()
    message = (
        "A pod of the group got a node just before its pods were to be replaced: its pins stay as they were."
    )
    note = Note(key=f"pins-left-out:{view.now.isoformat()}", reason="PinsLeftOut", message=message)
    return [PinsSettled(reverted=True), NewConstraints([c.as_json() for c in gang.constraints]), note]
