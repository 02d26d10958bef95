"""The rows of attempts: how a group begins to be tried again as a whole, and the clock of its run.

Values of one attempt are put back to where a group begins: its place, the facts about its nodes, pins, order
of sets and eased preferences. Values that users see stay: status, times of the first attempt, the stage of
patience that was reached.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Min

from pools import conditions
from scheduling.gang.gang_form import GangForm
from scheduling.sentences import in_seconds, plain_listing
from workflows.explain.disagreement import DISAGREES
from workflows.lifecycle.attempts_in_vain import NO_PROGRESS, NO_PROGRESS_ENDED
from workflows.lifecycle.domain_health import NVLINK_READY
from workflows.lifecycle.form_states import FormState
from workflows.lifecycle.statuses import TaskStatus
from workflows.models import Attempt, Task, TaskGroup
from workflows.services.changes import NewAttempt
from workflows.services.steps import Steps

NODES_HEALTHY = "NodesHealthy"
PODS_CHANGED = "PodsChanged"
PLACEMENT_KEPT = "PlacementKept"
OBSERVED = frozenset({NVLINK_READY, NODES_HEALTHY, PLACEMENT_KEPT})
"""The conditions of a group that tell how its cluster is now."""

_OF_AN_ATTEMPT = (NVLINK_READY, NODES_HEALTHY, PODS_CHANGED, PLACEMENT_KEPT, DISAGREES)
MOST_NODES = 1000
MOST_NAMED = 5


def begin(change: NewAttempt, steps: Steps) -> None:
    """End the present attempt and begin the next one. Changes of the same record have ended its tasks."""
    group, now = steps.group, steps.now
    _store(change, steps)
    set_clock(steps, since=None)
    number = group.attempt_number + 1
    steps.put(
        attempt_number=number,
        progress=TaskStatus.PROCESSING,
        attempt_began_at=now,
        attempt_not_before=now + timedelta(seconds=change.pause) if change.pause else None,
        clearing=group.touched_cluster,
        avoided_nodes=list(change.avoided_nodes),
        generation=group.generation + 1,
        created_in_cluster_at=None,
        unplaced_since=None,
        waiting_why="",
        waiting_reason="",
        waiting_evidence={},
        waiting_since=None,
        form=GangForm(stage=group.form["stage"]).to_json(),
        other_form=None,
        form_state=FormState.REACHED,
        placement_result=None,
        conditions=_conditions(change, steps),
        searched_capacity="",
        placement={**group.placement, "attempts": True},
    )
    after = f" after {in_seconds(change.pause)}" if change.pause else ""
    steps.note(
        key=f"attempt:{number}",
        reason="NewAttempt",
        message=f"Group {group.name} is tried again as a whole{after}, attempt {number}: {change.message} "
        f"Its new pod group is the youngest of its queue.{_avoidance(change.avoided_nodes)}",
        warning=True,
    )


def _conditions(change: NewAttempt, steps: Steps) -> list[dict[str, Any]]:
    """Without those of the attempt that ends, and with what it means for the group's progress."""
    group = steps.group
    left = conditions.without(group.conditions, _OF_AN_ATTEMPT)
    progress = change.in_vain.condition(change.message)
    if progress is None and conditions.status_of(left, NO_PROGRESS) == "True":
        progress = NO_PROGRESS_ENDED
    if progress is None:
        return left
    return conditions.upsert(left, [progress], now=steps.now, observed_revision=group.generation + 1)


def _avoidance(nodes: Sequence[str]) -> str:
    return f" It avoids {plain_listing(sorted(nodes), limit=MOST_NAMED)}." if nodes else ""


def _store(change: NewAttempt, steps: Steps) -> None:
    """Keep the attempt that ends."""
    group = steps.group
    tries = Task.objects.filter(pk__in=[new.after for new in steps.tries])
    nodes = tries.exclude(node_name="").order_by("node_name").values_list("node_name", flat=True).distinct()
    Attempt.objects.create(
        group=group,
        number=group.attempt_number,
        status=change.status,
        loss=change.loss,
        evidence=change.evidence,
        message=change.message,
        counted=change.counted,
        began_at=group.attempt_began_at or group.processing_start_time or group.submit_time,
        start_time=run_began(group),
        end_time=steps.now,
        cleared_at=None if group.touched_cluster else steps.now,
        nodes=list(nodes[:MOST_NODES]),
    )


def run_began(group: TaskGroup) -> datetime | None:
    """When a task of the present attempt first ran, also one that was replaced alone since."""
    tries = Task.objects.filter(group=group)
    if group.attempt_began_at is not None:
        tries = tries.filter(processing_start_time__gte=group.attempt_began_at)
    first: datetime | None = tries.aggregate(first=Min("start_time"))["first"]
    return first


def note_cleared(steps: Steps) -> None:
    """From now on the cluster has nothing of the group, as before its first create."""
    group = steps.group
    steps.put(clearing=False, touched_cluster=False, touched_at=None)
    Attempt.objects.filter(group=group, number=group.attempt_number - 1).update(cleared_at=steps.now)


def set_clock(steps: Steps, *, since: datetime | None) -> None:
    """Start the clock of the run, or stop it and keep what it counted."""
    group = steps.group
    if since is not None:
        steps.put(ran_since=group.ran_since or since)
    elif group.ran_since is not None:
        ran = group.ran_seconds + (steps.now - group.ran_since).total_seconds()
        steps.put(ran_seconds=ran, ran_since=None)
