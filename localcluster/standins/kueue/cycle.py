"""One cycle over everything: evictions, replacements of lost nodes, admissions, the status of queues."""

from localcluster.standins.kueue import guards, place, queue_status
from localcluster.standins.kueue.assign import LevelMissing, assign
from localcluster.standins.kueue.board import Board, lost_nodes, reserves
from localcluster.standins.kueue.place import DoesNotFit
from localcluster.standins.kueue.preempt import targets
from localcluster.standins.kueue.values import (
    Admission,
    Assignment,
    Change,
    ClusterQueue,
    Condition,
    Decisions,
    LocalQueue,
    PodSetAdmission,
    Snapshot,
    Workload,
)

NOT_READY_SECONDS = 30.0
"""A node that is not ready for so long counts as lost; one that is gone does at once."""

NO_RESERVATION = Condition("Admitted", False, "NoReservation", "The workload has no reservation")


def schedule(snapshot: Snapshot) -> Decisions:
    """Decide; pure."""
    board = Board.of(snapshot)
    changes = _ends(snapshot)
    touched = {change.workload.uid for change in changes}
    for workload in snapshot.workloads:
        if workload.uid not in touched and (change := _repair(board, workload)):
            changes.append(change)
            touched.add(workload.uid)
    changes += _admissions(board, touched)
    waits = [
        node.unready_since + NOT_READY_SECONDS
        for node in snapshot.nodes
        if node.unready_since is not None and node.unready_since + NOT_READY_SECONDS > snapshot.now
    ]
    return Decisions(
        guards=guards.changes(snapshot),
        changes=tuple(changes),
        statuses=queue_status.statuses(snapshot),
        wake_at=min(waits, default=None),
    )


def evicted(workload: Workload, reason: str, message: str, *more: Condition) -> Change:
    """Ask the workload's owner to take its pods away; the reservation stays until the owner gives it back."""
    return Change(workload, (Condition("Evicted", True, reason, message), *more))


def _ends(snapshot: Snapshot) -> list[Change]:
    """Admitted workloads that are switched off, or whose queue is drained."""
    queues = {each.name: each for each in snapshot.cluster_queues}
    local = {(each.namespace, each.name): each for each in snapshot.local_queues}
    changes: list[Change] = []
    for workload in snapshot.workloads:
        if change := _switched(workload):
            changes.append(change)
            continue
        if not reserves(workload) or workload.holds("Evicted") or workload.admission is None:
            continue
        queue, own = queues.get(workload.admission.queue), local.get((workload.namespace, workload.queue))
        if queue and queue.stop == "HoldAndDrain":
            changes.append(evicted(workload, "ClusterQueueStopped", "The ClusterQueue is stopped"))
        elif own and own.stop == "HoldAndDrain":
            changes.append(evicted(workload, "LocalQueueStopped", "The LocalQueue is stopped"))
    return changes


def _switched(workload: Workload) -> Change | None:
    """Evict an inactive workload, whether it has room or waits; note of an active one that it queues."""
    if workload.holds("Finished") or workload.deleting:
        return None
    requeued = workload.condition("Requeued")
    if workload.active:
        if requeued is None or requeued.status or not requeued.reason.startswith("Deactivated"):
            return None
        return Change(workload, (Condition("Requeued", True, "Reactivated", "The workload was reactivated"),))
    if workload.holds("Evicted") and (requeued is None or not requeued.status):
        return None
    message = "The workload is deactivated"
    return evicted(workload, "Deactivated", message, Condition("Requeued", False, "Deactivated", message))


def _repair(board: Board, workload: Workload) -> Change | None:
    """Replace a lost node in the assignment of a workload, or evict it."""
    if not reserves(workload) or workload.holds("Evicted") or workload.admission is None:
        return None
    lost = [
        name for name in lost_nodes(workload.admission, board.snapshot.nodes) if _lost(board.snapshot, name)
    ]
    if not lost:
        return None
    if len(lost) > 1:
        names = ", ".join(lost)
        message = (
            f"Workload eviction triggered due to multiple TAS assigned node failures, including: {names}"
        )
        return evicted(workload, "NodeFailures", message)
    own = board.remove(workload)
    try:
        admission = Admission(
            own.queue, tuple(_without(board, workload, each, lost[0]) for each in own.pod_sets)
        )
    except DoesNotFit:
        board.enter(workload, own)
        message = f"Workload was evicted as there was no replacement for a failed node: {lost[0]}"
        return evicted(workload, "NodeFailures", message)
    board.enter(workload, admission)
    return Change(workload, admission=admission, readmit=True)


def _lost(snapshot: Snapshot, name: str) -> bool:
    node = next((each for each in snapshot.nodes if each.name == name), None)
    if node is None:
        return True
    since = node.unready_since
    return not node.ready and since is not None and snapshot.now - since >= NOT_READY_SECONDS


def _without(board: Board, workload: Workload, admitted: PodSetAdmission, lost: str) -> PodSetAdmission:
    """A pod set's admission with the lost node's pods elsewhere; raises DoesNotFit."""
    was = admitted.assignment
    count = sum(pods for values, pods in was.domains if values[-1] == lost) if was else 0
    tree = board.tree(next((flavor for _, flavor in admitted.flavors), ""))
    if was is None or tree is None or not count:
        return admitted
    rest = Assignment(was.levels, tuple(each for each in was.domains if each[0][-1] != lost))
    pod_set = next(each for each in workload.pod_sets if each.name == admitted.name)
    usage = place.plus(tree, board.usage(tree), rest, pod_set)
    fresh, _ = place.replacement(tree, pod_set, rest, count, usage=usage)
    return PodSetAdmission(admitted.name, admitted.count, admitted.flavors, admitted.usage, fresh)


def _admissions(board: Board, touched: set[str]) -> list[Change]:
    """What becomes of those that wait: highest priority first, then the longest in the queue."""
    queues = {each.name: each for each in board.snapshot.cluster_queues}
    local = {(each.namespace, each.name): each for each in board.snapshot.local_queues}
    blocked: set[str] = set()
    changes: list[Change] = []
    for workload in sorted(filter(waits, board.snapshot.workloads), key=_rank):
        own = local.get((workload.namespace, workload.queue))
        queue = queues.get(own.queue) if own else None
        if reason := _closed(board.snapshot, workload, own, queue):
            changes.append(_pending(workload, "Inadmissible", reason))
            continue
        if queue is None or queue.name in blocked:
            continue
        change, *others = _try(board, queue, workload, touched)
        touched.update(other.workload.uid for other in others)
        changes += [change, *others]
        if queue.strict and not change.readmit:
            blocked.add(queue.name)
    return changes


def waits(workload: Workload) -> bool:
    """Whether it is in the queue."""
    over = workload.holds("Finished") or workload.deleting or not workload.active
    return not over and not workload.holds("QuotaReserved")


def _rank(workload: Workload) -> tuple[int, str, str, str]:
    return (
        -workload.priority,
        workload.queued_again_at or workload.created,
        workload.namespace,
        workload.name,
    )


def _closed(
    snapshot: Snapshot, workload: Workload, own: LocalQueue | None, queue: ClusterQueue | None
) -> str | None:
    if own is None or own.stop != "None":
        state = "is inactive" if own else "doesn't exist"
        return f"LocalQueue {workload.queue} {state}"
    if queue is None:
        return f"ClusterQueue {own.queue} doesn't exist"
    if queue.stop != "None" or queue_status.fault(snapshot, queue):
        return f"ClusterQueue {queue.name} is inactive"
    labels = snapshot.namespaces.get(workload.namespace, {})
    if queue.namespaces is None or not queue.namespaces.items() <= labels.items():
        return "Workload namespace doesn't match ClusterQueue selector"
    return None


def _try(board: Board, queue: ClusterQueue, workload: Workload, touched: set[str]) -> list[Change]:
    """Admit, or evict others for it, or say why it waits; its own change comes first."""
    try:
        admission = assign(board, queue, workload)
    except LevelMissing:
        return [Change(workload, (NO_RESERVATION,))]
    except DoesNotFit as reason:
        return _preempt(board, queue, workload, str(reason), touched)
    board.enter(workload, admission)
    return [Change(workload, _admitted(workload, queue), admission, readmit=True)]


def _preempt(
    board: Board, queue: ClusterQueue, workload: Workload, reason: str, touched: set[str]
) -> list[Change]:
    if (choice := targets(board, queue, workload)) is None:
        return [_pending(workload, "Pending", reason)]
    victims, admission = choice
    board.enter(workload, admission)  # the room that it waits for is nobody else's
    message = (
        f"Preempted to accommodate a workload (UID: {workload.uid}, JobUID: {workload.job_uid}) due to "
        f"prioritization in the ClusterQueue; preemptor path: /{queue.name}; preemptee path: /{queue.name}"
    )
    preempted = Condition("Preempted", True, "InClusterQueue", message)
    waiting = f"{reason}. Pending the preemption of {len(victims)} workload(s)"
    return [
        _pending(workload, "Pending", waiting),
        *(
            evicted(victim, "Preempted", message, preempted)
            for victim in victims
            if not victim.holds("Evicted") and victim.uid not in touched
        ),
    ]


def _pending(workload: Workload, reason: str, message: str) -> Change:
    return Change(workload, (Condition("QuotaReserved", False, reason, message), NO_RESERVATION))


def _admitted(workload: Workload, queue: ClusterQueue) -> tuple[Condition, ...]:
    reservation = f"Quota reserved in ClusterQueue {queue.name}, wait time since queued was 0s"
    admission = f"Admitted by ClusterQueue {queue.name}, wait time since reservation was 0s"
    before = (workload.condition(kind) for kind in ("Evicted", "Preempted"))
    return (
        Condition("QuotaReserved", True, "QuotaReserved", reservation),
        Condition("Admitted", True, "Admitted", admission),
        *(
            Condition(each.type, False, "QuotaReserved", f"Previously: {each.message}")
            for each in before
            if each is not None and each.status
        ),
    )
