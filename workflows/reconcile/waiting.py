"""Reading the facts that explain why a group waits, from rows alone.

The reason is found at the end of each reconciliation of a group that has not started, and recorded in its
row, so a request for a workflow costs no more than reading it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from pools import conditions
from pools.models import Node
from scheduling import names
from scheduling.backends.base import BindFailure, Waiting
from scheduling.backends.missing_objects import NOT_CREATED
from scheduling.backends.registry import scheduler_backend
from scheduling.errors import TopologyError
from scheduling.kubernetes_syntax import selects
from scheduling.topology.coverage import LabelCoverage
from scheduling.topology.drift import InSync, compare
from web.times import naive_utc, read_instant
from workflows.explain import obstacles
from workflows.explain.changed_pods import STARTS_BESIDE, ChangedPods, beside_changes
from workflows.explain.disagreement import DISAGREES, JUDGED, beside
from workflows.explain.levels import NamedLevels, condition_of, coverage_of
from workflows.explain.observed_group import NodeAway, ObservedGroup
from workflows.explain.obstacles import (
    BarrierWait,
    OccupiedNode,
    TopologyDrift,
    UnpreparedClaim,
    WaitingContainer,
)
from workflows.explain.reasons import Reason, Why, waiting_reason
from workflows.feasibility.queues.queue_usage import read_joined_queue
from workflows.lifecycle.attempts_in_vain import NO_PROGRESS
from workflows.lifecycle.domain_health import DomainHealth
from workflows.lifecycle.pod_status import hanging_inits, waits_at_barrier
from workflows.lifecycle.statuses import WORKFLOW_LIVE, TaskStatus
from workflows.models import TaskGroup, Workflow, in_status
from workflows.reconcile.assess.follow import ObservedPods
from workflows.reconcile.objects.create import edits_pod_groups
from workflows.reconcile.objects.namespace_quotas import QuotaWait
from workflows.reconcile.observe import observations
from workflows.reconcile.observe.node_health import ill_nodes
from workflows.reconcile.observe.pod_changes import changes_of
from workflows.reconcile.observe.queue_position import position_in
from workflows.reconcile.view.group_view import GroupView, claims_channels
from workflows.reconcile.view.outcomes import Retry
from workflows.services.levels import named_of
from workflows.values.observation import DOMAIN_LABEL, PodSeen

_STARTING = (TaskStatus.SCHEDULING, TaskStatus.INITIALIZING)
_BETWEEN_ATTEMPTS = {Why.ATTEMPT, Why.NO_PROGRESS}
MOST_MESSAGES = 5
MOST_NODES = 200


def reason_of(
    view: GroupView,
    *,
    status: str,
    observed: ObservedPods | None,
    trouble: Retry | None,
    template: str,
    node_wait: str,
    paused: str = "",
    unchosen: str = "",
    silence: str = "",
    quota_wait: QuotaWait | None = None,
    held_back: str = "",
    domain: DomainHealth | None = None,
    bind_failures: tuple[BindFailure, ...] = (),
) -> Reason | None:
    """Why the group waits, or None if it does not.

    ``template`` is a claim template waited for; ``node_wait`` says which nodes keep pods of earlier tries.
    ``paused`` says until when a task is not tried again alone.
    ``unchosen`` says why no domain is chosen for sets around others, ``silence`` that its scheduler does not
    answer.
    ``held_back`` says which failures do not count yet, ``domain`` is the health of its ComputeDomain.
    ``bind_failures`` are known beside those of the pods, ``quota_wait`` is for a quota of its namespace.
    """
    try:
        scheduler = scheduler_backend(view.placement.terms.scheduler_type)
    except TopologyError as error:
        return Reason(Why.UNKNOWN_SCHEDULER, error.message)
    again = _tried_again(view, observed) if status == TaskStatus.RUNNING and observed else []
    levels = _levels(view) if status in (*_STARTING, TaskStatus.PROCESSING) else _Levels()
    unplaced = again or status in _STARTING
    waiting = _waiting(view, observed) if observed and unplaced else None
    if waiting is not None and bind_failures:
        waiting = replace(waiting, bind_failures=bind_failures)
    group = ObservedGroup(
        status=status,
        attempt_before=_attempt_before(view),
        no_progress=_no_progress(view),
        backend=view.placement.terms.backend,
        unreachable_since=_unreachable_since(view) if trouble and trouble.unreachable else None,
        trouble=trouble.trouble if trouble else "",
        silent_scheduler=_silent_scheduler(view, trouble) if trouble else "",
        template=template,
        template_removed=bool(template) and view.row.created_in_cluster_at is not None,
        missing_levels=levels.lost,
        coverage=levels.coverage,
        waiting=waiting,
        starting=_starting(view, observed) if observed else (),
        domain=domain if status in (*_STARTING, TaskStatus.RUNNING) else None,
        held_back=held_back,
        retried=again,
        queued_behind=_queued_behind(view) if again else 0,
        occupied=_occupied_nodes(view, observed, waiting) if observed and status in _STARTING else (),
        compute_domains_unserved=bool(trouble and _lacks_compute_domains(view, trouble)),
        drift=levels.drift,
        nodes_away=_nodes_away(observed) if observed else (),
        node_wait=node_wait,
        paused=paused,
        unchosen=unchosen,
        silence=silence,
        quota=quota_wait.sentence if quota_wait else "",
        quota_requested=quota_wait.requested if quota_wait else {},
        barrier=_barrier(view, observed) if observed and view.placement.start_barrier else None,
        unprepared=_unprepared(view, observed) if observed and status in _STARTING else (),
        namespace=view.placement.terms.namespace,
        credential_prefix=names.credential_prefix(
            view.placement.terms.installation, view.placement.submitted_by
        ),
        reports=_reports(view, observed) if observed and unplaced else (),
        busy=tuple(observed.busy.values()) if observed else (),
    )
    reason = waiting_reason(group, scheduler=scheduler)
    pods = _changed_pods(view, observed) if observed else None
    if pods and pods.hanging and status == TaskStatus.RUNNING:
        reason = reason or STARTS_BESIDE
    if reason and pods:
        reason = beside_changes(reason, pods)
    if reason and reason.why in JUDGED and (message := _disagreement(view)):
        reason = beside(reason, message)
    if reason is None or view.row.attempt_number == 1 or reason.why in _BETWEEN_ATTEMPTS:
        return reason
    return replace(reason, text=f"Attempt {view.row.attempt_number} waits. {reason.text}")


def _silent_scheduler(view: GroupView, trouble: Retry) -> str:
    """The type of its scheduler, where a webhook of that gives no answer, by the address that is called."""
    scheduler = view.placement.terms.scheduler_type
    return scheduler if trouble.unanswered and scheduler in trouble.trouble.lower() else ""


def _changed_pods(view: GroupView, observed: ObservedPods) -> ChangedPods:
    pods = [pod for pod in observed.pods.values() if not pod.absent]
    pending = (pod for pod in pods if pod.node_name and pod.phase == "Pending")
    return ChangedPods(
        changes=changes_of(pods),
        hanging=Counter(str(container["name"]) for pod in pending for container in hanging_inits(pod)),
        has_template=bool(view.placement.templates),
    )


def _nodes_away(observed: ObservedPods) -> tuple[NodeAway, ...]:
    """The nodes of its pods that are away, and when each is lost."""
    return tuple(
        NodeAway(name, node, node.lost_at(observed.lost_after))
        for name, node in ill_nodes(observed).items()
        if node.is_away
    )


def _tried_again(view: GroupView, observed: ObservedPods) -> list[str]:
    """The tasks that are tried again and have no node yet."""
    retried = [task for task in view.scheduling if task.replaces]
    pods = {task.name: observed.pods.get(task.pod_name) for task in retried}
    return [name for name, pod in pods.items() if pod is None or not pod.node_name]


def _queued_behind(view: GroupView) -> int:
    """How many groups of its queue the scheduler serves before a task of this gang that is tried again.

    A gang without the task has its minimum, and gangs below theirs go first, unless this one keeps the task
    in its minimum ("Retried tasks queue behind younger gangs").
    """
    if not edits_pod_groups(view) or any(gang.never_stale for gang in view.gangs.values()):
        return 0
    ranks = list(Workflow.Priority)
    before = ranks[: ranks.index(Workflow.Priority(view.placement.priority)) + 1]
    groups = TaskGroup.objects.filter(
        workflow__pool_name=view.placement.terms.pool,
        workflow__status__in=WORKFLOW_LIVE,
        workflow__priority__in=before,
        backend_id=view.row.backend_id,
    ).filter(in_status(TaskStatus.SCHEDULING))
    return groups.exclude(pk=view.row.pk).count()


def _attempt_before(view: GroupView) -> str:
    """Why the present attempt has not begun yet; empty if it has."""
    row = view.row
    before, number = row.attempt_number - 1, row.attempt_number
    if row.clearing:
        return f"Attempt {number} begins when nothing of attempt {before} is left in the cluster."
    if row.attempt_not_before is not None and view.now < row.attempt_not_before:
        time = naive_utc(row.attempt_not_before, precision="seconds")
        return f"Attempt {number} begins at {time} UTC, after a pause."
    return ""


def _disagreement(view: GroupView) -> str:
    """What its condition says of a scheduler that leaves it waiting; empty while it says nothing."""
    condition = conditions.find(view.row.conditions, DISAGREES)
    return str(condition["message"]) if condition and condition["status"] == "True" else ""


def _no_progress(view: GroupView) -> str:
    """What its condition says of attempts in vain; empty while it says nothing."""
    condition = conditions.find(view.row.conditions, NO_PROGRESS)
    return str(condition["message"]) if condition and condition["status"] == "True" else ""


def _unreachable_since(view: GroupView) -> datetime:
    """Since when its cluster has not answered: by its probe, else since the first failure here."""
    for condition in view.backend.conditions:
        if condition["type"] == "Reachable" and condition["status"] == "False":
            return read_instant(condition["lastTransitionTime"]) or view.now
    failed_at = view.row.waiting_since if view.row.waiting_why == Why.CLUSTER else None
    return failed_at or view.now


@dataclass(frozen=True, slots=True, kw_only=True)
class _Levels:
    """The levels of a group's constraints: unavailable ones, coverage by nodes, changes from outside."""

    lost: str = ""
    coverage: LabelCoverage | None = None
    drift: TopologyDrift | None = None


def _levels(view: GroupView) -> _Levels:
    """Which levels of its constraints are unavailable, and how many of the pool's nodes have the others."""
    labels = frozenset(row["label"] for row in view.row.constraints if row["label"])
    if not labels or not observations.knows_nodes(view):
        return _Levels()
    named = named_of(view.placement, labels, cluster_uid=observations.cluster_of(view))
    coverage = coverage_of(named, _pool_nodes(view, _selectors(view)))
    condition = condition_of(named, coverage)
    lost = condition.message if condition.status == "True" else ""
    relevant = {coverage.levels[-1].level.label} if named.external else named.labels
    return _Levels(lost=lost, coverage=coverage.only(relevant), drift=_drift(named))


def _drift(named: NamedLevels) -> TopologyDrift | None:
    """How an external Topology object differs from the levels that the group was accepted under."""
    if named.external is None:
        return None
    state = compare(named.external.labels, expected=named.external.expected)
    return None if isinstance(state, InSync) else TopologyDrift(named.external.name, state)


def _occupied_nodes(
    view: GroupView, observed: ObservedPods, waiting: Waiting | None
) -> tuple[OccupiedNode, ...]:
    """Nodes with another ComputeDomain's label: those of its pods, or those it may use if claims fail."""
    if not view.placement.nvlink or waiting is None:
        return ()
    if not waiting.placed and not view.keeps_nodes and not _may_wait_for_claims(waiting):
        return ()
    rows = Node.objects.filter(cluster_id=observations.cluster_of(view), labels__has_key=DOMAIN_LABEL)
    if waiting.placed:
        rows = rows.filter(name__in={pod.node_name for pod in observed.pods.values() if pod.node_name})
    selectors = _selectors(view)
    by_node = {
        name: str(labels[DOMAIN_LABEL])
        for name, labels in rows.order_by("name").values_list("name", "labels")[:MOST_NODES]
        if any(selects(selector, labels) for selector in selectors)
    }
    if not by_node or not claims_channels(view):  # without claims its tasks may run beside other domains
        return ()
    return observations.compute_domain_owners(view, by_node)


def _may_wait_for_claims(waiting: Waiting) -> bool:
    """Whether its scheduler mentions claims, or gives no other reason."""
    statuses = [str(group["status"]) for group in waiting.pod_groups if group.get("status")]
    messages = [*waiting.pod_messages, *statuses]
    return not messages or any("claim" in message for message in messages)


def _lacks_compute_domains(view: GroupView, trouble: Retry) -> bool:
    """Whether the cause is that the cluster does not serve NVIDIA's ComputeDomain."""
    if not (view.placement.nvlink and trouble.unserved):
        return False
    return "computedomain" in trouble.trouble.lower().replace(" ", "")


def _domains(view: GroupView, selectors: Sequence[Mapping[str, str]]) -> dict[str, str] | None:
    """The domains of the pool's nodes: joined label values, broadest first, to names for people.

    None while no node is known, and where there are no levels: then no domain can be meant.
    """
    nodes = _pool_nodes(view, selectors) if view.placement.terms.levels else {}
    domain_names: dict[str, str] = {}
    for labels in nodes.values():
        path: list[str] = []
        steps: list[str] = []
        for level in view.placement.terms.levels:
            if level.label not in labels:
                break
            path.append(labels[level.label])
            steps.insert(0, f"{level.key} {labels[level.label]}")
            domain_names[".".join(path)] = " in ".join(steps)
    return domain_names if nodes else None


def _pool_nodes(view: GroupView, selectors: Sequence[Mapping[str, str]]) -> dict[str, Mapping[str, str]]:
    """The nodes that tasks of the group may use, by name, with the labels of its levels."""
    return {
        name: labels
        for name, labels in observations.node_labels(view).items()
        if any(selects(selector, labels) for selector in selectors)
    }


def _any_closed(view: GroupView, selectors: Sequence[Mapping[str, str]]) -> bool | None:
    """Whether a node that tasks of the group may use takes no pods; None while no node is known."""
    closed = observations.labels_of_closed_nodes(view)
    if any(selects(selector, labels) for labels in closed for selector in selectors):
        return True
    return False if closed or observations.knows_nodes(view) else None


def _selectors(view: GroupView) -> list[dict[str, str]]:
    """The distinct node selectors of the group's tasks."""
    rows = view.row.tasks.filter(latest=True).order_by().values_list("spec__node_selector", flat=True)
    return [selector or {} for selector in rows.distinct()[:20]]


def _waiting(view: GroupView, observed: ObservedPods) -> Waiting:
    live = view.live
    pods = [pod for task in live if (pod := observed.pods.get(task.pod_name)) and not pod.absent]
    placed = len(pods) == len(live) and all(pod.node_name for pod in pods)
    if placed:
        return Waiting(
            placed=True,
            expected=(),
            pod_groups=(),
            pods=len(pods),
            pods_expected=len(live),
            levels=view.placement.terms.levels,
            sets={},
        )
    cluster, scheduler_type = observations.cluster_of(view), view.placement.terms.scheduler_type
    queue = read_joined_queue(view.placement, cluster=cluster)
    selectors, pod_groups = _selectors(view), observations.pod_groups(view)
    return Waiting(
        placed=False,
        expected=tuple(str(group["metadata"]["name"]) for group in view.renderer.pod_groups()),
        pod_groups=pod_groups,
        pods=len(pods),
        pods_expected=len(live),
        levels=view.placement.terms.levels,
        sets=view.renderer.sets(),
        events=_recent(view),
        pod_messages=_messages(pods, "PodScheduled"),
        bind_failures=_bind_failures([pod for pod in pods if not pod.node_name]),
        domains=_domains(view, selectors),
        any_closed=_any_closed(view, selectors),
        queue=queue,
        position=(
            position_in(queue, group=view.uuid, scheduler_type=scheduler_type, cluster=cluster)
            if queue
            else None
        ),
        seconds=_age(pod_groups, view.now),
    )


def _age(pod_groups: Sequence[Mapping[str, Any]], now: datetime) -> float:
    """For how many seconds the youngest of them exists."""
    times = (read_instant(pod_group["metadata"].get("creationTimestamp")) for pod_group in pod_groups)
    return min(((now - time).total_seconds() for time in times if time is not None), default=0.0)


def _recent(view: GroupView) -> tuple[dict[str, Any], ...]:
    """The last event about its pod groups; none for new pods, to which an older event may not apply."""
    created_at = view.row.created_in_cluster_at
    settled = created_at is not None and view.now - created_at > timedelta(seconds=5)
    return observations.pod_group_events(view)[:1] if settled else ()


def _messages(pods: list[PodSeen], condition_type: str) -> tuple[str, ...]:
    """The most frequent messages of pods that lack this condition."""
    messages = Counter(
        str(condition.get("message") or "")
        for pod in pods
        for condition in pod.digest.get("conditions") or ()
        if condition.get("type") == condition_type and condition.get("status") == "False"
    )
    return tuple(message for message, _ in messages.most_common(MOST_MESSAGES) if message)


def _bind_failures(pods: list[PodSeen]) -> tuple[BindFailure, ...]:
    """The messages of pods that could not be bound to a node, each with the time of the last such pod."""
    since: dict[str, str] = {}
    for pod in pods:
        for condition in pod.digest.get("conditions") or ():
            if condition.get("type") == "PodBound" and condition.get("status") == "False":
                message, time = str(condition.get("message") or ""), str(condition.get("since") or "")
                since[message] = max(since.get(message, ""), time)
    failures = [BindFailure(message, time) for message, time in since.items() if message]
    return tuple(sorted(failures, key=lambda failure: failure.since, reverse=True)[:MOST_MESSAGES])


def _barrier(view: GroupView, observed: ObservedPods) -> BarrierWait | None:
    """Who waits at the start barrier, and which pods have no address yet; None if nobody does."""
    live = [task.name for task in view.live]
    pods = {task.name: observed.pods.get(task.pod_name) for task in view.live}
    waiting = tuple(name for name, pod in pods.items() if pod and not pod.absent and waits_at_barrier(pod))
    lacking = tuple(name for name, pod in pods.items() if pod is None or pod.absent or not pod.pod_ip)
    return BarrierWait(tasks=waiting, live=len(live), without_address=lacking) if waiting else None


def _starting(view: GroupView, observed: ObservedPods) -> tuple[WaitingContainer, ...]:
    """The containers on nodes that wait; with their image if it is the cause."""
    read = (task for task in view.live if task.pod_name not in observed.settled)
    pods = {task.name: observed.pods.get(task.pod_name) for task in read}
    containers = [
        WaitingContainer(
            task=name,
            image=_known_image(view, pod, container),
            reason=str(container.get("reason") or "ContainerCreating"),
            message=str(container.get("message") or ""),
        )
        for name, pod in pods.items()
        if pod is not None and pod.node_name and pod.phase == "Pending" and not pod.absent
        for container in pod.digest.get("containers") or ()
        if container.get("state") == "waiting"
    ]
    with_bad_image = {obj.task for obj in containers if obj.is_image and not obj.image}
    if not with_bad_image:
        return tuple(containers)
    rows = view.row.tasks.filter(latest=True, name__in=sorted(with_bad_image)[: obstacles.MOST_EVIDENCE])
    images = dict(rows.values_list("name", "spec__image"))
    return tuple(obj if obj.image else replace(obj, image=images.get(obj.task) or "") for obj in containers)


def _unprepared(view: GroupView, observed: ObservedPods) -> tuple[UnpreparedClaim, ...]:
    """The tasks whose kubelets report that they cannot prepare claims, as long as their pods do not run."""
    pods = {task: observed.pods.get(task.pod_name) for task in view.live}
    nodes = {
        (task.name, task.retry_id): pod.node_name
        for task, pod in pods.items()
        if pod is not None and pod.node_name and pod.phase == "Pending" and not pod.absent
    }
    if not nodes or not view.placement.nvlink:
        return ()
    reports = observations.pod_events(view, observations.UNPREPARED)
    return tuple(
        UnpreparedClaim(task=task[0], node=nodes[task], message=message)
        for task, message in reports.items()
        if task in nodes
    )


def _reports(view: GroupView, observed: ObservedPods) -> tuple[str, ...]:
    """The last events on pods that have not started, about objects that they name; each text once."""
    pods = {(task.name, task.retry_id): observed.pods.get(task.pod_name) for task in view.live}
    templates = view.placement.templates.values()
    has_claims = any((template.pod.get("spec") or {}).get("resourceClaims") for template in templates)
    pending = {task for task, pod in pods.items() if pod and _may_miss_objects(pod, has_claims=has_claims)}
    if not pending:
        return ()
    messages = observations.pod_events(view, observations.UNMOUNTED, observations.UNCLAIMED)
    texts = dict.fromkeys(message for task, message in messages.items() if task in pending)
    return tuple(texts)[:MOST_MESSAGES]


def _may_miss_objects(pod: PodSeen, *, has_claims: bool) -> bool:
    """Whether a controller or a kubelet may look for objects that the pod names.

    Kubernetes' scheduler does not queue a pod before its claims are made, and then says nothing of it.
    """
    if pod.phase != "Pending" or pod.absent:
        return False
    if pod.node_name:
        return any(container.get("state") == "waiting" for container in pod.digest.get("containers") or ())
    messages = _messages([pod], "PodScheduled")
    return any(NOT_CREATED in message for message in messages) if messages else has_claims


def _known_image(view: GroupView, pod: PodSeen, container: Mapping[str, Any]) -> str:
    """The image of a container that the service or the cluster adds; empty for others."""
    name, barrier = container.get("name"), view.placement.start_barrier
    if container.get("injected"):
        fields = (f"containers[{name}]", f"initContainers[{name}]")
        changes = pod.digest.get("changes") or ()
        return next((str(change["present"]) for change in changes if change["field"] in fields), "")
    return barrier.image if barrier and name == names.START_BARRIER else ""
