"""From a pod to its task's status, exit code and message, as OSMO reads pods.

The table is OSMO's (its codes are what exit actions are written for): below 256 the user's own, 301 to 304
and 999 for containers that cannot start, 3001 backend, 3003 start error, 3004 evicted, 3005 start timeout,
3006 preempted, 4000 unknown. Differences, each because one container runs here and no helper beside it: no
codes of helpers (255, 1000 and 2000 added), and a pod that has a node is INITIALIZING, since it has left the
queue. Containers that the cluster put into the pod decide no end; those before the task's own may prevent it.

``start_timeout`` is how long a pod may take to start on its node: OSMO's ``max_pod_restart_limit``. It counts
from the moment the pod got its node, whatever its containers do, so tries to start that follow each other
share it.

Pure: the time is an argument. ``recheck`` is when the same pod would read differently without any change.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import barrier
from pools.values.recovery import Loss
from scheduling import names
from scheduling.backends.base import Eviction, EvictionCause, RoomCause, RoomLoss
from scheduling.nodes.node_health import NodeHealth
from scheduling.nodes.suspects import NodeFault
from scheduling.sentences import in_seconds
from web.times import read_instant
from workflows.lifecycle.domain_health import DOMAIN_DELETED, DOMAIN_LOST_NODE
from workflows.lifecycle.evidence import DISRUPTIONS, DeletionTraces, conclude, deletion_requested
from workflows.lifecycle.kubelet_reasons import NodeEnd, node_end
from workflows.lifecycle.statuses import TaskStatus
from workflows.values.observation import DISRUPTION, PREEMPTED, PodSeen

UNKNOWN_CODE = 4000
BACKEND_CODE = 3001
START_ERROR_CODE = 3003
EVICTED_CODE = 3004
START_TIMEOUT_CODE = 3005
PREEMPTED_CODE = 3006
UPSTREAM_CODE = 3000

BY_CONDITION = "disruption_condition"
BY_NODE = "node_away"
UNEXPLAINED = "unexplained"
OWN_END = "own_end"
PEER_PREEMPTED = "peer_preempted"
ROOM_TAKEN = "room_taken_back"
ROOM_NODE_FAILED = "room_node_failed"
ROOM_NOT_READY = "room_not_ready"
ROOM_DELETED = "room_deleted"
ROOM_SWITCHED_OFF = "room_switched_off"
ROOM_REJECTED = "room_rejected"
ROOM_BUSY = "assigned_node_busy"
OF_THE_ROOM = frozenset(
    {ROOM_TAKEN, ROOM_NODE_FAILED, ROOM_NOT_READY, ROOM_DELETED, ROOM_SWITCHED_OFF, ROOM_REJECTED, ROOM_BUSY}
)
"""Evidence of losses that hit a gang as a whole: no task of it is tried again alone."""
NO_TRACES = DeletionTraces()

INJECTED = "which the cluster put into its pod"
CONFIG_ERROR_GRACE = timedelta(minutes=10)
LOST_CONTAINER_GRACE = timedelta(minutes=30)
_WAITING_FAILS: Mapping[str, tuple[TaskStatus, int]] = {
    "ErrImagePull": (TaskStatus.FAILED_IMAGE_PULL, 302),
    "ImagePullBackOff": (TaskStatus.FAILED_IMAGE_PULL, 301),
    "CrashLoopBackOff": (TaskStatus.FAILED, 304),
    "CreateContainerError": (TaskStatus.FAILED, 999),
}
_POD_REASONS: Mapping[str, tuple[TaskStatus, int, NodeFault | None]] = {
    "Evicted": (TaskStatus.FAILED_EVICTED, EVICTED_CODE, None),
    "StartError": (TaskStatus.FAILED_START_ERROR, START_ERROR_CODE, NodeFault.START),
}
_NODE_DISRUPTIONS = ("DeletionByTaintManager", "DeletionByPodGC")
"""Kubernetes took the pod because of its node: it was not ready, removed, or declared out of service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodReading:
    """A task's status by its pod. ``code`` is None while it has not ended.

    ``loss`` is the kind of loss if it ended and did not complete, ``evidence`` from what that was concluded.
    ``fault`` is what its node did, if anything.
    """

    status: TaskStatus
    code: int | None = None
    message: str = ""
    recheck: datetime | None = None
    loss: Loss = Loss.FAILED
    evidence: str = OWN_END
    fault: NodeFault | None = None


def read_pod(pod: PodSeen, *, now: datetime, start_timeout: timedelta) -> PodReading | None:
    """Read a pod that is in the cluster; None if its status is unknown (phase Unknown)."""
    if reading := _disrupted(pod):
        return reading
    if pod.phase == "Succeeded":
        return PodReading(status=TaskStatus.COMPLETED, code=0)
    if pod.phase == "Failed":
        return _failed(pod, now)
    if pod.phase not in ("Pending", "Running"):
        return None
    return _starting(pod, now) or _live(pod, now, start_timeout)


def ended_by_deletion(pod: PodSeen) -> bool:
    """Whether its containers ended only after somebody had asked for the pod's deletion.

    Then their exit codes say how they took SIGTERM: one that saves its work ends with 0, not completed.
    """
    requested_at = deletion_requested(pod)
    if requested_at is None or pod.phase not in ("Succeeded", "Failed"):
        return False
    times = [read_instant(c.get("finished")) for c in _containers(pod) if c.get("state") == "terminated"]
    return any(time is not None and time >= requested_at for time in times)


def last_end(pod: PodSeen) -> datetime | None:
    """When the last of its containers ended."""
    times = (read_instant(c.get("finished")) for c in _containers(pod) if c.get("state") == "terminated")
    return max((time for time in times if time is not None), default=None)


def read_gone(
    pod: PodSeen | None,
    *,
    eviction: Eviction | None,
    now: datetime,
    start_timeout: timedelta,
    node_gone: bool = False,
    node: NodeHealth | None = None,
    deleted: bool = False,
    traces: DeletionTraces = NO_TRACES,
    gone_at: datetime | None = None,
) -> PodReading:
    """Read a pod that is no longer there.

    ``eviction`` is how its scheduler evicted it, if it did; ``node_gone`` says that its node was removed,
    ``node`` is the health of its node where that is not healthy, ``deleted`` says that its containers ended
    by its deletion, so that their exit codes say nothing. ``traces`` may explain a deletion that no event and
    no condition does, ``gone_at`` is when it was first missed.
    """
    last = read_pod(pod, now=now, start_timeout=start_timeout) if pod is not None else None
    if last is not None and last.code is not None and not deleted:
        return last
    if eviction:
        return _of_unknown_cause(eviction, pod, traces, gone_at) or _evicted(eviction)
    if pod is not None and (
        reading := _disrupted(pod, gone=True)
        or _with_node(pod, removed=node_gone, node=node)
        or _by_traces(pod, traces, gone_at)
    ):
        return reading
    message = (
        "Its pod vanished from the cluster, and nothing there explains it: it was deleted from outside, or "
        "its node was removed."
    )
    return _backend(message, loss=Loss.PREEMPTED, evidence=UNEXPLAINED)


def _with_node(pod: PodSeen, *, removed: bool, node: NodeHealth | None) -> PodReading | None:
    """How a pod ended whose node is gone or away."""
    if removed:
        message = f"Its node {pod.node_name} was removed from the cluster, and its pod with it."
        return _backend(message, loss=Loss.NODE_LOST, evidence="node_removed", fault=NodeFault.LOST)
    if node is not None and node.is_away:
        message = f"Its pod was deleted from a node that is away. {node.sentence(pod.node_name)}"
        return _backend(message, loss=Loss.NODE_LOST, evidence=BY_NODE, fault=NodeFault.LOST)
    return None


def _by_traces(pod: PodSeen, traces: DeletionTraces, gone_at: datetime | None) -> PodReading | None:
    """How a pod ended that was deleted without a word."""
    verdict = conclude(pod, traces, gone_at=gone_at)
    if verdict is None:
        return None
    return PodReading(
        status=TaskStatus.FAILED_EVICTED if verdict.stale else TaskStatus.FAILED_PREEMPTED,
        code=EVICTED_CODE if verdict.stale else PREEMPTED_CODE,
        message=verdict.message,
        loss=verdict.loss,
        evidence=verdict.evidence,
    )


def read_lost(pod: PodSeen, node: NodeHealth, *, lost_after: timedelta) -> PodReading:
    """Read a pod that has not ended on a node that is lost: nobody knows whether it still runs."""
    seconds = in_seconds(lost_after.total_seconds())
    message = f"Its node is lost: it is away for longer than {seconds}. {node.sentence(pod.node_name)}"
    return _backend(message, loss=Loss.NODE_LOST, evidence=BY_NODE, fault=NodeFault.LOST)


def read_out_of_domain(pod: PodSeen, *, since: datetime, lost_after: timedelta) -> PodReading:
    """Read a pod that runs on a node without its NVLink: the node has left the group's ComputeDomain."""
    seconds = in_seconds(lost_after.total_seconds())
    message = (
        f"Its node {pod.node_name} has left its NVLink domain: it is not ready there since "
        f"{since:%Y-%m-%d %H:%M:%S} UTC, longer than {seconds}."
    )
    return _backend(message, loss=Loss.NODE_LOST, evidence=DOMAIN_LOST_NODE, fault=NodeFault.NVLINK)


def read_domain_deleted(pod: PodSeen) -> PodReading:
    """Read a pod whose claims name a ComputeDomain that somebody deleted; no node is to blame."""
    message = (
        f"Its group's ComputeDomain was deleted from outside: its pod on {pod.node_name} shares no NVLink "
        "domain with its peers any more."
    )
    return _backend(message, loss=Loss.NODE_LOST, evidence=DOMAIN_DELETED)


def _evicted(eviction: Eviction) -> PodReading:
    """Preemption, reclaim and consolidation are preemption to OSMO; a stale gang is an eviction."""
    stale = eviction.cause == EvictionCause.STALE_GANG
    return PodReading(
        status=TaskStatus.FAILED_EVICTED if stale else TaskStatus.FAILED_PREEMPTED,
        code=EVICTED_CODE if stale else PREEMPTED_CODE,
        message=eviction.message,
        loss=Loss.PREEMPTED,
        evidence="eviction_event",
    )


_WITHOUT_ROOM: Mapping[RoomCause, PodReading] = {
    RoomCause.PREEMPTED: PodReading(
        status=TaskStatus.FAILED_PREEMPTED, code=PREEMPTED_CODE, loss=Loss.PREEMPTED, evidence=ROOM_TAKEN
    ),
    RoomCause.NODE_FAILED: PodReading(
        status=TaskStatus.FAILED_BACKEND_ERROR,
        code=BACKEND_CODE,
        loss=Loss.NODE_LOST,
        evidence=ROOM_NODE_FAILED,
    ),
    RoomCause.NOT_READY: PodReading(
        status=TaskStatus.FAILED_START_TIMEOUT, code=START_TIMEOUT_CODE, evidence=ROOM_NOT_READY
    ),
    RoomCause.DELETED: PodReading(
        status=TaskStatus.FAILED_PREEMPTED, code=PREEMPTED_CODE, loss=Loss.PREEMPTED, evidence=ROOM_DELETED
    ),
    RoomCause.REJECTED: PodReading(
        status=TaskStatus.FAILED_BACKEND_ERROR, code=BACKEND_CODE, evidence=ROOM_REJECTED
    ),
    RoomCause.SWITCHED_OFF: PodReading(
        status=TaskStatus.FAILED_PREEMPTED,
        code=PREEMPTED_CODE,
        loss=Loss.PREEMPTED,
        evidence=ROOM_SWITCHED_OFF,
    ),
}


def read_without_room(room: RoomLoss) -> PodReading:
    """Read a pod that has not ended and has to go, because its gang has no room any more."""
    is_deleted = room.cause == RoomCause.DELETED
    message = room.reason if is_deleted else f"Its scheduler took the room of its gang back: {room.reason}"
    return replace(_WITHOUT_ROOM[room.cause], message=message)


def unbound_since(pod: PodSeen) -> datetime | None:
    """Since when a pod cannot be bound to the one node that it was made for; None for any other pod."""
    if pod.node_name or pod.absent or pod.deleting or not pod.digest.get("assigned"):
        return None
    conditions = pod.digest.get("conditions") or ()
    refused = (c for c in conditions if c.get("type") == "PodScheduled" and c.get("status") == "False")
    return next((read_instant(condition.get("since")) for condition in refused), None)


def read_unbound(message: str) -> PodReading:
    """Read a pod that could not be bound in time to the node that its scheduler had assigned to it."""
    return PodReading(
        status=TaskStatus.FAILED_PREEMPTED,
        code=PREEMPTED_CODE,
        message=message,
        loss=Loss.PREEMPTED,
        evidence=ROOM_BUSY,
    )


def _of_unknown_cause(
    eviction: Eviction, pod: PodSeen | None, traces: DeletionTraces, gone_at: datetime | None
) -> PodReading | None:
    """What objects say of an eviction whose event names no cause; None for others, or if they say nothing."""
    if eviction.cause != EvictionCause.UNKNOWN or pod is None:
        return None
    return _disrupted(pod) or _by_traces(pod, traces, gone_at)


def _disrupted(pod: PodSeen, *, gone: bool = False) -> PodReading | None:
    """How a pod ended that has a condition for it; one that neither failed nor is gone may yet go on."""
    if reading := read_preempted(pod):
        return reading
    if (gone or pod.phase == "Failed") and (why := _disruption(pod)):
        return _backend(
            f"Its pod was disrupted: {why}",
            loss=Loss.NODE_LOST,
            evidence=BY_CONDITION,
            fault=_disruption_fault(why),
        )
    return None


def read_preempted(pod: PodSeen) -> PodReading | None:
    """How a pod ended that its scheduler preempted, by its condition."""
    for condition in _true_conditions(pod):
        if condition.get("reason") == PREEMPTED:
            return PodReading(
                status=TaskStatus.FAILED_PREEMPTED,
                code=PREEMPTED_CODE,
                message=condition.get("message") or "The scheduler preempted it.",
                loss=Loss.PREEMPTED,
                evidence=BY_CONDITION,
            )
    return None


def of_preempted_gang(peer: PodReading) -> PodReading:
    """How a pod ended of which nothing says why, beside a peer that was preempted: gangs go as a whole."""
    return replace(peer, message=f"A peer of its gang was preempted. {peer.message}", evidence=PEER_PREEMPTED)


def _disruption(pod: PodSeen) -> str:
    """Why Kubernetes disrupted the pod; empty if it did not."""
    for condition in _true_conditions(pod):
        if condition.get("type") == DISRUPTION:
            reason, message = str(condition.get("reason", "")), str(condition.get("message", ""))
            cause = f"{reason}: {message}".strip(": ") or "no reason given"
            return f"{cause} ({DISRUPTIONS[reason]})" if reason in DISRUPTIONS else cause
    return ""


def _disruption_fault(why: str) -> NodeFault | None:
    return NodeFault.LOST if why.startswith(_NODE_DISRUPTIONS) else None


def _failed(pod: PodSeen, now: datetime) -> PodReading:
    pod_message, reason = str(pod.digest.get("message") or ""), str(pod.digest.get("reason") or "")
    words = f"{reason}: {pod_message}".strip(": ")
    if end := node_end(reason, pod_message):
        return _by_its_node(pod, end, words)
    if reason in _POD_REASONS:
        status, code, fault = _POD_REASONS[reason]
        return PodReading(status=status, code=code, message=words, fault=fault)
    return _containers_failed(pod, now)


def _containers_failed(pod: PodSeen, now: datetime) -> PodReading:
    """The end of a pod by its own containers, as far as they say one."""
    pod_message = str(pod.digest.get("message") or "")
    ended = [c for c in _containers(pod) if c.get("state") == "terminated"]
    if all(c.get("init") for c in ended) and (injected := _failed_init(pod)):
        return injected
    if (own := start_barrier_of(pod)) and own.get("state") == "terminated" and own.get("exit"):
        return _barrier_failed(own)
    if killed := next((c for c in ended if c.get("reason") == "OOMKilled"), None):
        message = f"Container {killed.get('name')} ran out of memory."
        return PodReading(status=TaskStatus.FAILED_EVICTED, code=EVICTED_CODE, message=message)
    if lost := next((c for c in ended if c.get("reason") == "ContainerStatusUnknown"), None):
        return _lost(pod, lost, now)
    if not ended:
        message = pod_message or "Its pod failed without a reason."
        return PodReading(status=TaskStatus.FAILED, code=UNKNOWN_CODE, message=message)
    worst = max(ended, key=lambda c: int(c.get("exit") or 0))
    code = int(worst.get("exit") or 0)
    detail = str(worst.get("message") or pod_message)
    message = f"Container {worst.get('name')} ended with exit code {code}" + (
        f": {detail}" if detail else "."
    )
    return PodReading(status=TaskStatus.FAILED, code=code, message=message)


def _failed_init(pod: PodSeen) -> PodReading | None:
    """The end of a task that never began, because of a container that the cluster put before it."""
    for container in injected_inits(pod):
        if container.get("state") == "terminated" and container.get("exit"):
            detail = str(container.get("message") or container.get("reason") or "")
            message = (
                f"Init container {container.get('name')}, {INJECTED}, ended with exit code "
                f"{container['exit']}, so nothing of the task ran" + (f": {detail}" if detail else ".")
            )
            return PodReading(status=TaskStatus.FAILED_START_ERROR, code=START_ERROR_CODE, message=message)
    return None


def _by_its_node(pod: PodSeen, end: NodeEnd, words: str) -> PodReading:
    """The end of a pod whose kubelet refused or ended it by itself."""
    node = f"Its node {pod.node_name}" if pod.node_name else "Its node"
    if end == NodeEnd.REFUSED:
        message = f"{node} refused its pod before anything of it ran. {words}"
        return _backend(message, loss=Loss.NODE_LOST, evidence=end, fault=NodeFault.START)
    return _backend(f"{node} ended its pod. {words}", loss=Loss.NODE_LOST, evidence=end)


def start_barrier_of(pod: PodSeen) -> Mapping[str, Any] | None:
    """The container of a pod's start barrier; None without one."""
    return next((c for c in _containers(pod) if c.get("init") and c.get("name") == names.START_BARRIER), None)


def waits_at_barrier(pod: PodSeen) -> bool:
    """Whether a pod's start barrier is at work."""
    container = start_barrier_of(pod)
    return container is not None and pod.phase == "Pending" and container.get("state") == "running"


def _barrier_failed(container: Mapping[str, Any]) -> PodReading:
    """The end of a task that never began, because of its peers or of the barrier itself."""
    code, detail = int(container["exit"]), str(container.get("message") or container.get("reason") or "")
    if code == barrier.NO_ADDRESS:
        message = f"Its start barrier ended without its peers. {detail}".strip()
        return PodReading(status=TaskStatus.FAILED_START_TIMEOUT, code=START_TIMEOUT_CODE, message=message)
    message = f"Its start barrier failed with exit code {code}" + (f": {detail}" if detail else ".")
    return PodReading(status=TaskStatus.FAILED_START_ERROR, code=START_ERROR_CODE, message=message)


def _lost(pod: PodSeen, container: Mapping[str, Any], now: datetime) -> PodReading:
    """The kubelet lost sight of a container and may find it again."""
    since = read_instant(container.get("finished")) or read_instant(pod.digest.get("created")) or now
    if now - since < LOST_CONTAINER_GRACE:
        return PodReading(status=TaskStatus.RUNNING, recheck=since + LOST_CONTAINER_GRACE)
    message = f"The node lost container {container.get('name')}."
    return _backend(message, loss=Loss.NODE_LOST, evidence="container_lost")


def _starting(pod: PodSeen, now: datetime) -> PodReading | None:
    """A status that follows from a waiting container, if any."""
    for container in (*_containers(pod), *injected_inits(pod)):
        if container.get("state") != "waiting":
            continue
        reason = str(container.get("reason") or "")
        detail = str(container.get("message") or "")
        if reason in _WAITING_FAILS:
            status, code = _WAITING_FAILS[reason]
            message = f"{reason}: {detail}".strip(": ")
            if container.get("injected"):
                name = container.get("name")
                message = f"Init container {name}, {INJECTED}, cannot start. {message}"
            return PodReading(status=status, code=code, message=message)
        if reason == "CreateContainerConfigError":
            return _misconfigured(pod, f"{reason}: {detail}".strip(": "), now)
    return None


def _misconfigured(pod: PodSeen, message: str, now: datetime) -> PodReading:
    """A missing Secret or ConfigMap may still come."""
    since = placed_at(pod) or read_instant(pod.digest.get("created"))
    if since is None or now - since <= CONFIG_ERROR_GRACE:
        until = since + CONFIG_ERROR_GRACE if since else None
        return PodReading(status=TaskStatus.SCHEDULING, message=message, recheck=until)
    return _backend(message)


def _live(pod: PodSeen, now: datetime, start_timeout: timedelta) -> PodReading:
    if pod.phase == "Running":
        return PodReading(status=TaskStatus.RUNNING)
    if not pod.node_name:
        return PodReading(status=TaskStatus.SCHEDULING)
    placed = placed_at(pod)
    if placed is not None and now - placed > start_timeout:
        return not_started(pod, start_timeout)
    recheck = placed + start_timeout if placed else None
    return PodReading(status=TaskStatus.INITIALIZING, recheck=recheck)


def not_started(pod: PodSeen, start_timeout: timedelta) -> PodReading:
    """The end of a task whose pod has not started in time, with what its containers wait for."""
    containers = pod.digest.get("containers") or ()
    waits = [hanging_sentence(str(c.get("name"))) for c in hanging_inits(pod)]
    waits += [_wait(container) for container in containers if container.get("state") == "waiting"]
    seconds = in_seconds(start_timeout.total_seconds())
    if waits_at_barrier(pod):
        waits = ["Its start barrier still waits for the addresses of its peers."]
    message = " ".join([f"Its pod did not start within {seconds} on {pod.node_name}.", *waits[:3]])
    return PodReading(status=TaskStatus.FAILED_START_TIMEOUT, code=START_TIMEOUT_CODE, message=message)


def hanging_inits(pod: PodSeen) -> Sequence[Mapping[str, Any]]:
    """Containers that the cluster put before the task's and that have not ended yet."""
    return [c for c in injected_inits(pod) if c.get("state") == "running"]


def hanging_sentence(container: str) -> str:
    return f"Init container {container}, {INJECTED}, has not ended yet."


def _wait(container: Mapping[str, Any]) -> str:
    """Why a container waits, in a sentence; the kubelet's words name an image, a volume or a claim."""
    detail = str(container.get("message") or "").rstrip(".")
    reason = str(container.get("reason") or "ContainerCreating")
    name = f"{container.get('name')}, {INJECTED}," if container.get("injected") else container.get("name")
    return f"Container {name} waits ({reason}{f': {detail}' if detail else ''})."


def placed_at(pod: PodSeen) -> datetime | None:
    """When a pod got its node, as far as it is known."""
    for condition in _true_conditions(pod):
        if condition.get("type") == "PodScheduled":
            return read_instant(condition.get("since"))
    return read_instant(pod.digest.get("created")) if pod.node_name else None


def _true_conditions(pod: PodSeen) -> Iterable[Mapping[str, Any]]:
    return (c for c in pod.digest.get("conditions") or () if c.get("status") == "True")


def _containers(pod: PodSeen) -> Sequence[Mapping[str, Any]]:
    """The task's own: its user's, and those of its pool's templates."""
    return [c for c in pod.digest.get("containers") or () if not c.get("injected")]


def injected_inits(pod: PodSeen) -> Sequence[Mapping[str, Any]]:
    """Containers that the cluster put into the pod and without whose end no other begins."""
    containers = pod.digest.get("containers") or ()
    return [c for c in containers if c.get("init") and c.get("injected") == "container"]


def _backend(
    message: str, *, loss: Loss = Loss.FAILED, evidence: str = OWN_END, fault: NodeFault | None = None
) -> PodReading:
    status = TaskStatus.FAILED_BACKEND_ERROR
    return PodReading(
        status=status, code=BACKEND_CODE, message=message, loss=loss, evidence=evidence, fault=fault
    )
