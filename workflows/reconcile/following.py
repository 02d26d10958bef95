"""Following the pods that a group has: what is observed of them, and what their tasks become by it."""

from collections.abc import Iterable
from dataclasses import replace

from workflows.reconcile.assess.deadlines import next_deadline
from workflows.reconcile.assess.follow import UNSEEN_GRACE, Assessment, ObservedPods, follow
from workflows.reconcile.objects.create import rejoins_pod_group
from workflows.reconcile.objects.room import with_room
from workflows.reconcile.observe import observations
from workflows.reconcile.observe.busy_nodes import with_busy_nodes
from workflows.reconcile.repair.recreate import next_missing_check
from workflows.reconcile.turn import ReadAgain, StepResult, Turn
from workflows.reconcile.view.group_reader import GroupReader
from workflows.reconcile.view.group_view import GroupView, history_of
from workflows.services.changes import Change, NewAttempt, NewMembership, NewTry


def observe(turn: Turn) -> Turn:
    """Read the pods as the rows say, from the cluster where these do not suffice, and what they lead to."""
    view = turn.view
    observed = with_busy_nodes(view, observations.observed_pods(view))
    assessment = _assess(turn, observed)
    if view.observer_is_silent or (assessment.unobserved and _overdue(view)):
        observed = _live_pods(turn, observed)
        assessment = _assess(turn, observed)
    with_loss = with_room(view, observed, cluster=turn.cluster)
    if with_loss is not observed:
        observed, assessment = with_loss, _assess(turn, with_loss)
    turn = replace(turn, assessment=assessment).at(assessment.recheck)
    return turn.learn(observed=observed, held_back=assessment.held_back)


def record_assessment(turn: Turn) -> StepResult:
    """Record what the pods lead to; later steps see the new statuses in the same turn."""
    changes = turn.assessment.changes
    if not changes:
        return turn
    recorded = turn.record(changes)
    if _changes_tries(changes):
        return ReadAgain()
    view = turn.view.after(recorded)
    if view.ended:
        return ReadAgain(view)
    return replace(turn, view=view).learn(observed=turn.observed.of(task.pod_name for task in view.live))


def watch_deadlines(turn: Turn) -> Turn:
    """Look again when its next timeout is over, or when what is missing can first be told."""
    return turn.at(next_missing_check(turn.view), next_deadline(turn.view))


def _changes_tries(changes: Iterable[Change]) -> bool:
    """Whether the turn must start anew: a new try has another pod."""
    return any(isinstance(change, NewTry | NewAttempt | NewMembership) for change in changes)


def _assess(turn: Turn, observed: ObservedPods) -> Assessment:
    view = turn.view
    return follow(
        view,
        observed,
        editable=lambda: rejoins_pod_group(view),
        history=lambda: history_of(view.row, now=view.now, tasks=view.live),
        placed=lambda: {pod.name for pod in _reader(turn).pods().values() if pod.node},
    )


def _reader(turn: Turn) -> GroupReader:
    return GroupReader(turn.cluster, turn.view.uuid, turn.view.placement)


def _live_pods(turn: Turn, observed: ObservedPods) -> ObservedPods:
    """The pods in the cluster now, read because the observer has not reported all of them."""
    view, silent = turn.view, turn.view.observer_is_silent
    live = _reader(turn).pod_observations()
    missing = {name: replace(pod, absent=True) for name, pod in observed.pods.items() if name not in live}
    return ObservedPods(
        pods={**missing, **live},
        gone_at=observed.gone_at,
        complete=True,
        observer_silent=silent,
        heartbeat_at=view.heartbeat_at,
        nodes_gone=observed.nodes_gone,
        evictions=observations.evictions(view),
        exit_actions=observations.exit_actions_of_live_tasks(view),
        uncounted_tries=observations.uncounted_tries_of_live_tasks(view),
        nodes={} if silent else observed.nodes,  # of a silent observer they are old, too
        lost_after=observed.lost_after,
        room_lost=None if silent else observed.room_lost,
        busy={} if silent else observed.busy,
    )


def _overdue(view: GroupView) -> bool:
    """Whether the observer should have reported all pods by now."""
    created_at = view.row.created_in_cluster_at or view.now
    starts = (t.scheduling_start_time for t in view.tasks if t.scheduling_start_time)
    return view.now - max(starts, default=created_at) > UNSEEN_GRACE
