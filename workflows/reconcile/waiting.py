"""Gathering what the explanation of a waiting group needs, from rows alone.

Asked at the end of each look at a group that has not started, and kept in its row, so a request for a
workflow costs no more than reading it.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pools import conditions
from scheduling.backends.base import Waiting
from scheduling.backends.registry import scheduler_backend
from scheduling.coverage import LabelCoverage
from scheduling.errors import TopologyError
from workflows.explain import GroupSeen, Reason, Why, waiting_reason
from workflows.level_conditions import condition_of, coverage_of
from workflows.observation import PodSeen
from workflows.reconcile import observed
from workflows.reconcile.follow import Sight
from workflows.reconcile.outcomes import Retry
from workflows.reconcile.values import GroupView
from workflows.services.levels import named_of
from workflows.statuses import TaskStatus

_MADE = (TaskStatus.SCHEDULING, TaskStatus.INITIALIZING)
MOST_MESSAGES = 5


def reason_of(
    view: GroupView, *, status: str, sight: Sight | None, trouble: Retry | None, template: str
) -> Reason | None:
    """Why the group waits, or None if it does not. ``template`` is a claim template waited for."""
    try:
        scheduler = scheduler_backend(view.placement.scheduler_type)
    except TopologyError as error:
        return Reason(Why.UNKNOWN_SCHEDULER, error.message)
    again = _tried_again(view, sight) if status == TaskStatus.RUNNING and sight else []
    lost, coverage = _levels(view) if status in (*_MADE, TaskStatus.PROCESSING) else ("", None)
    seen = GroupSeen(
        status=status,
        upstream=_upstream(view) if status == TaskStatus.WAITING else (),
        backend=view.placement.backend,
        unreachable_since=_unreachable_since(view) if trouble and trouble.unreachable else None,
        trouble=trouble.trouble if trouble else "",
        template=template,
        lost=lost,
        coverage=coverage,
        waiting=_waiting(view, sight) if sight and (again or status in _MADE) else None,
        starting=_starting(sight) if sight else {},
        again=again,
    )
    return waiting_reason(seen, scheduler=scheduler)


def _tried_again(view: GroupView, sight: Sight) -> list[str]:
    """The tasks that are tried again and have no node yet."""
    retried = [task for task in view.tasks if task.retry_id and task.status == TaskStatus.SCHEDULING]
    pods = {task.name: sight.pods.get(task.pod_name) for task in retried}
    return [name for name, pod in pods.items() if pod is None or not pod.node_name]


def _upstream(view: GroupView) -> list[str]:
    rows = view.row.upstream.exclude(status=TaskStatus.COMPLETED).order_by("position")
    return list(rows.values_list("name", flat=True))


def _unreachable_since(view: GroupView) -> str:
    """Since when its cluster does not answer: as probed, else since it was first noticed here."""
    for condition in view.backend.conditions:
        if condition["type"] == "Reachable" and condition["status"] == "False":
            return str(condition["lastTransitionTime"])
    noticed = view.row.waiting_since if view.row.waiting_why == Why.CLUSTER else None
    return conditions.as_time(noticed or view.now)


def _levels(view: GroupView) -> tuple[str, LabelCoverage | None]:
    """Which levels its constraints need in vain, and how far the pool's nodes carry those that they name."""
    labels = frozenset(line["label"] for line in view.row.constraints)
    if not labels or not observed.knows_nodes(view):
        return "", None
    named = named_of(view.placement, labels, cluster_uid=observed.cluster_of(view))
    coverage = coverage_of(named, _pool_nodes(view))
    condition = condition_of(named, coverage)
    lost = condition.message if condition.status == "True" else ""
    told = {coverage.levels[-1].level.label} if named.external else named.labels
    return lost, coverage.only(told)


def _domains(view: GroupView) -> dict[str, str] | None:
    """The domains of the pool's nodes: joined label values, broadest first, to words for people."""
    nodes = _pool_nodes(view)
    words: dict[str, str] = {}
    for labels in nodes.values():
        path: list[str] = []
        said: list[str] = []
        for level in view.placement.levels:
            if level.label not in labels:
                break
            path.append(labels[level.label])
            said.insert(0, f"{level.key} {labels[level.label]}")
            words[".".join(path)] = " in ".join(said)
    return words if nodes else None


def _pool_nodes(view: GroupView) -> dict[str, Mapping[str, str]]:
    """The nodes that tasks of the group may use, by name, with the labels of its levels."""
    selectors = _selectors(view)
    return {
        name: carried
        for name, carried in observed.node_labels(view).items()
        if any(wanted.items() <= carried.items() for wanted in selectors)
    }


def _selectors(view: GroupView) -> list[dict[str, str]]:
    """The distinct node selectors of the group's tasks."""
    rows = view.row.tasks.filter(latest=True).order_by().values_list("spec__node_selector", flat=True)
    return [selector or {} for selector in rows.distinct()[:20]]


def _waiting(view: GroupView, sight: Sight) -> Waiting:
    live = [task for task in view.tasks if task.live]
    pods = [pod for task in live if (pod := sight.pods.get(task.pod_name)) and not pod.gone]
    placed = len(pods) == len(live) and all(pod.node_name for pod in pods)
    if placed:
        return Waiting(
            placed=True,
            expected=(),
            pod_groups=(),
            pods=len(pods),
            pods_expected=len(live),
            levels=view.placement.levels,
            sets={},
        )
    return Waiting(
        placed=False,
        expected=tuple(str(group["metadata"]["name"]) for group in view.renderer.pod_groups()),
        pod_groups=observed.pod_groups(view),
        pods=len(pods),
        pods_expected=len(live),
        levels=view.placement.levels,
        sets=view.renderer.sets(),
        events=_recent(view),
        pod_messages=_messages(pods),
        domains=_domains(view),
    )


def _recent(view: GroupView) -> tuple[dict[str, Any], ...]:
    """What was said of pod groups, as long as it may still be so: pods that came since make it old."""
    made = view.row.created_in_cluster_at
    return observed.pod_group_events(view)[:1] if made and view.now - made > timedelta(seconds=5) else ()


def _messages(pods: list[PodSeen]) -> tuple[str, ...]:
    """The distinct messages of pods that were found unschedulable."""
    said = Counter(
        str(condition.get("message") or "")
        for pod in pods
        for condition in pod.digest.get("conditions") or ()
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False"
    )
    return tuple(message for message, _ in said.most_common(MOST_MESSAGES) if message)


def _starting(sight: Sight) -> dict[str, int]:
    """How many placed pods wait for what."""
    reasons = Counter(
        str(container.get("reason") or "ContainerCreating")
        for pod in sight.pods.values()
        if pod.node_name and pod.phase == "Pending" and not pod.gone
        for container in pod.digest.get("containers") or ()
        if container.get("state") == "waiting"
    )
    return dict(reasons)
