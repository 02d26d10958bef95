"""Reading the facts that explain why a group waits, from rows alone.

The reason is found at the end of each reconciliation of a group that has not started, and recorded in its
row, so a request for a workflow costs no more than reading it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
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
from scheduling.topology.drift import InSync, compare
from web.times import naive_utc, read_instant
from workflows.explain import obstacles
from workflows.explain.changed_pods import STARTS_BESIDE, ChangedPods, beside_changes
from workflows.explain.disagreement import DISAGREES, JUDGED, beside
from workflows.explain.finders import waiting_reason
from workflows.explain.levels import NamedLevels, condition_of, coverage_of
from workflows.explain.observed_group import NodeAway, ObservedGroup
from workflows.explain.obstacles import (
    BarrierWait,
    OccupiedNode,
    TopologyDrift,
    UnpreparedClaim,
    WaitingContainer,
)
from workflows.explain.reasons import Reason, Why
from workflows.feasibility.queues.queue_position import position_in
from workflows.feasibility.queues.queue_usage import read_joined_queue
from workflows.lifecycle.attempts_in_vain import NO_PROGRESS
from workflows.lifecycle.pod_status import hanging_inits, waits_at_barrier
from workflows.lifecycle.statuses import WORKFLOW_LIVE, TaskStatus
from workflows.models import TaskGroup, Workflow, in_status
from workflows.reconcile.assess.follow import ObservedPods
from workflows.reconcile.objects.create import edits_pod_groups
from workflows.reconcile.observe import observations
from workflows.reconcile.observe.node_health import ill_nodes
from workflows.reconcile.observe.pod_changes import changes_of
from workflows.reconcile.turn import Learned, QuotaWait
from workflows.reconcile.view.group_view import GroupView, TaskView, claims_channels
from workflows.reconcile.view.outcomes import Retry
from workflows.services.levels import named_of
from workflows.values.observation import DOMAIN_LABEL, PodSeen

_STARTING = (TaskStatus.SCHEDULING, TaskStatus.INITIALIZING)
_BETWEEN_ATTEMPTS = {Why.ATTEMPT, Why.NO_PROGRESS}
MOST_MESSAGES = 5
MOST_NODES = 200


def reason_of(
    view: GroupView, learned: Learned, *, bind_failures: tuple[BindFailure, ...] = ()
) -> Reason | None:
    """Why the group waits, or None if it does not; ``bind_failures`` are known beside those of the pods."""
    status, observed = view.status, learned.observed
    try:
        scheduler = scheduler_backend(view.placement.terms.scheduler_type)
    except TopologyError as error:
        return Reason(Why.UNKNOWN_SCHEDULER, error.message)
    group = ObservedGroup(
        status=status,
        backend=view.placement.terms.backend,
        scheduler=scheduler,
        tries_wait=_first(
            (Why.NODE_AWAY, learned.node_wait),
            (Why.LOSS, learned.held_back),
            (Why.NO_PROGRESS, learned.paused),
        ),
        request_wait=_of_quota(learned.quota_wait)
        or _first((Why.SILENT, learned.silence), (Why.TOPOLOGY, learned.unchosen)),
        attempt_wait=_attempt_wait(view),
        template=learned.template,
        template_removed=view.row.created_in_cluster_at is not None,
        domain=learned.domain,
        namespace=view.placement.terms.namespace,
        credential_prefix=names.credential_prefix(
            view.placement.terms.installation, view.placement.submitted_by
        ),
    )
    if learned.trouble is not None:
        group = _with_trouble(group, view, learned.trouble)
    if status in (*_STARTING, TaskStatus.PROCESSING):
        group = _with_levels(group, view)
    if observed is not None:
        group = _with_pods(group, view, observed, bind_failures)
    reason = waiting_reason(group)
    if observed is not None:
        pods = _changed_pods(view, observed)
        if pods.hanging and status == TaskStatus.RUNNING:
            reason = reason or STARTS_BESIDE
        reason = reason and beside_changes(reason, pods)
    return reason and _beside_history(reason, view)


def _with_trouble(group: ObservedGroup, view: GroupView, trouble: Retry) -> ObservedGroup:
    """With the error of the last reconcile."""
    return replace(
        group,
        trouble=trouble.trouble,
        unreachable_since=_unreachable_since(view) if trouble.unreachable else None,
        silent_scheduler=_silent_scheduler(view, trouble),
        compute_domains_unserved=_lacks_compute_domains(view, trouble),
    )


def _with_pods(
    group: ObservedGroup, view: GroupView, observed: ObservedPods, bind_failures: tuple[BindFailure, ...]
) -> ObservedGroup:
    """With what its pods wait for, and the nodes that they have."""
    starts = group.status in _STARTING
    retried = _tried_again(view, observed) if group.status == TaskStatus.RUNNING else []
    waiting = _waiting(view, observed) if starts or retried else None
    if waiting is not None and bind_failures:
        waiting = replace(waiting, bind_failures=bind_failures)
    return replace(
        group,
        waiting=waiting,
        retried=retried,
        queued_behind=_queued_behind(view) if retried else 0,
        starting=_starting(view, observed),
        occupied=_occupied_nodes(view, observed, waiting) if starts else (),
        unprepared=_unprepared(view, observed) if starts else (),
        nodes_away=_nodes_away(observed),
        barrier=_barrier(view, observed) if view.placement.start_barrier else None,
        reports=_reports(view, observed) if starts or retried else (),
        busy=tuple(observed.busy.values()),
    )


def _beside_history(reason: Reason, view: GroupView) -> Reason:
    """The reason with a disagreement of its scheduler, and with the number of a later attempt."""
    if reason.why in JUDGED and (message := _message_of(view, DISAGREES)):
        reason = beside(reason, message)
    if view.row.attempt_number == 1 or reason.why in _BETWEEN_ATTEMPTS:
        return reason
    return replace(reason, sentence=f"Attempt {view.row.attempt_number} waits. {reason.sentence}")


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


def _present(view: GroupView, observed: ObservedPods) -> list[tuple[TaskView, PodSeen]]:
    """The live tasks that have a pod, with it."""
    pods = ((task, observed.pods.get(task.pod_name)) for task in view.live)
    return [(task, pod) for task, pod in pods if pod is not None and not pod.absent]


def _on_nodes(view: GroupView, observed: ObservedPods) -> list[tuple[TaskView, PodSeen]]:
    """Those whose pods have nodes and have not started."""
    pods = (entry for entry in _present(view, observed) if entry[0].pod_name not in observed.settled)
    return [(task, pod) for task, pod in pods if pod.node_name and pod.phase == "Pending"]


def _tried_again(view: GroupView, observed: ObservedPods) -> list[str]:
    """The tasks that are tried again and have no node yet."""
    retried = ((task.name, observed.pods.get(task.pod_name)) for task in view.scheduling if task.replaces)
    return [name for name, pod in retried if pod is None or not pod.node_name]


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


def _first(*sentences: tuple[Why, str]) -> Reason | None:
    """The first obstacle of which a step has written a sentence."""
    return next((Reason(why, sentence) for why, sentence in sentences if sentence), None)


def _of_quota(wait: QuotaWait | None) -> Reason | None:
    evidence = {"namespace_quota": {"requested": dict(wait.requested)}} if wait else {}
    return Reason(Why.NAMESPACE_QUOTA, wait.sentence, evidence) if wait else None


def _attempt_wait(view: GroupView) -> Reason | None:
    """Why the present attempt has not begun yet; None if it has."""
    row = view.row
    before, number = row.attempt_number - 1, row.attempt_number
    if row.clearing:
        text = f"Attempt {number} begins when nothing of attempt {before} is left in the cluster."
    elif row.attempt_not_before is not None and view.now < row.attempt_not_before:
        time = naive_utc(row.attempt_not_before, precision="seconds")
        text = f"Attempt {number} begins at {time} UTC, after a pause."
    else:
        return None
    no_progress = _message_of(view, NO_PROGRESS)
    return Reason(Why.NO_PROGRESS, f"{text} {no_progress}") if no_progress else Reason(Why.ATTEMPT, text)


def _message_of(view: GroupView, condition_type: str) -> str:
    """What a condition of the group says; empty unless it is true."""
    condition = conditions.find(view.row.conditions, condition_type)
    return str(condition["message"]) if condition and condition["status"] == "True" else ""


def _unreachable_since(view: GroupView) -> datetime:
    """Since when its cluster has not answered: by its probe, else since the first failure here."""
    reachable = conditions.find(view.backend.conditions, "Reachable")
    if reachable and reachable["status"] == "False":
        return read_instant(reachable["lastTransitionTime"]) or view.now
    failed_at = view.row.waiting_since if view.row.waiting_why == Why.CLUSTER else None
    return failed_at or view.now


def _with_levels(group: ObservedGroup, view: GroupView) -> ObservedGroup:
    """With the levels of its constraints that are unavailable, and the nodes that have the others' labels."""
    labels = frozenset(row["label"] for row in view.row.constraints if row["label"])
    if not labels or not observations.knows_nodes(view):
        return group
    named = named_of(view.placement, labels, cluster_uid=observations.cluster_of(view))
    coverage = coverage_of(named, _pool_nodes(view, _selectors(view)))
    condition = condition_of(named, coverage)
    relevant = {coverage.levels[-1].level.label} if named.external else named.labels
    return replace(
        group,
        missing_levels=condition.message if condition.status == "True" else "",
        coverage=coverage.only(relevant),
        drift=_drift(named),
    )


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
    if not by_node or not claims_channels(view.live):  # without claims its tasks may run beside other domains
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
    live, pods = view.live, [pod for _, pod in _present(view, observed)]
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
    pods = _present(view, observed)
    waiting = tuple(task.name for task, pod in pods if waits_at_barrier(pod))
    addressed = {task.pk for task, pod in pods if pod.pod_ip}
    lacking = tuple(task.name for task in view.live if task.pk not in addressed)
    return BarrierWait(tasks=waiting, live=len(view.live), without_address=lacking) if waiting else None


def _starting(view: GroupView, observed: ObservedPods) -> tuple[WaitingContainer, ...]:
    """The containers on nodes that wait; with their image if it is the cause."""
    containers = [
        WaitingContainer(
            task=task.name,
            image=_known_image(view, pod, container),
            reason=str(container.get("reason") or "ContainerCreating"),
            message=str(container.get("message") or ""),
        )
        for task, pod in _on_nodes(view, observed)
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
    nodes = {(task.name, task.retry_id): pod.node_name for task, pod in _on_nodes(view, observed)}
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
    templates = view.placement.templates.values()
    has_claims = any((template.pod.get("spec") or {}).get("resourceClaims") for template in templates)
    pending = {
        (task.name, task.retry_id)
        for task, pod in _present(view, observed)
        if _may_miss_objects(pod, has_claims=has_claims)
    }
    if not pending:
        return ()
    messages = observations.pod_events(view, observations.UNMOUNTED, observations.UNCLAIMED)
    texts = dict.fromkeys(message for task, message in messages.items() if task in pending)
    return tuple(texts)[:MOST_MESSAGES]


def _may_miss_objects(pod: PodSeen, *, has_claims: bool) -> bool:
    """Whether a controller or a kubelet may look for objects that the pod names.

    Kubernetes' scheduler does not queue a pod before its claims are made, and then says nothing of it.
    """
    if pod.phase != "Pending":
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
