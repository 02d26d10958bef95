"""Recording how well a gang was placed, once every task of it has a node."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from pools import conditions
from pools.conditions import Condition
from pools.models import Node
from pools.services import composites
from scheduling.fit.outcome import PlacementOutcome
from workflows.feasibility.placement.placed import (
    PlacementResult,
    domains_fingerprint,
    fingerprint,
    judge,
    outcomes_on,
)
from workflows.lifecycle.pod_status import placed_at
from workflows.metrics import COMPOSITES_BROKEN, PLACED
from workflows.reconcile.assess.follow import ObservedPods
from workflows.reconcile.observe import observations
from workflows.reconcile.turn import Turn
from workflows.reconcile.view.group_view import GroupView
from workflows.services.attempt_rows import PLACEMENT_KEPT
from workflows.services.changes import Change, NewPlacementResult, Note

FRESH = timedelta(minutes=2)
"""How soon after a binding the labels of its node are those that the scheduler went by."""


def record_placement_result(turn: Turn) -> Turn:
    """Judge a new placing, record the outcome with the group, and count it for the pool.

    Nothing is recorded while a task has no node or the labels of a node are not known. A placing that was
    judged is judged again where its nodes carry other labels since, and counts no more.
    """
    if turn.view.placement.terms.levels:  # without levels no task can require or prefer anything
        _record(turn, turn.view, turn.observed)
    return turn


def _record(turn: Turn, view: GroupView, observed: ObservedPods) -> None:
    nodes, row = _nodes(view, observed), view.row.placement_result
    if nodes is None:
        return
    before = PlacementResult.from_row(row) if row and fingerprint(nodes) == row["places"] else None
    if not (before.domains if before else _asks(view)):
        return
    labels = _labels(view, nodes)
    if len(labels) < len(set(nodes.values())):
        return
    if before:
        _judge_again(turn, nodes, labels, before)
    elif judgement := judge(view.values, nodes, labels, now=view.now):
        result, missed = judgement
        changes: list[Change] = [NewPlacementResult(result.to_row()), *_notes(result, missed)]
        if conditions.find(view.row.conditions, PLACEMENT_KEPT):
            changes.append(_kept_condition(result, "Its tasks have other nodes since."))
        turn.record(changes)
        PLACED.labels(view.placement.terms.pool, result.strictness, result.outcome.value).inc()
        is_nested = any(gang.parents for gang in view.gangs.values())
        is_broken = result.outcome is PlacementOutcome.VIOLATION
        if is_nested and is_broken and _is_breach(view, observed, nodes, labels):
            COMPOSITES_BROKEN.labels(view.placement.terms.backend).inc()
            composites.record_breach(view.backend.pk, f'Group "{view.row.name}": {" ".join(missed)}')


def _judge_again(
    turn: Turn, nodes: Mapping[str, str], labels: Mapping[str, Mapping[str, str]], before: PlacementResult
) -> None:
    """Keep with the group where it stands by the labels of now; the time of its placing stays."""
    view, keys = turn.view, {placed.key for placed in before.sets}
    domains = domains_fingerprint(labels, view.placement.terms.levels, keys=keys)
    if domains in {"", before.domains}:
        return
    judgement = judge(view.values, nodes, labels, now=before.at)
    if judgement is None:
        return
    result, missed = judgement
    condition = _kept_condition(
        result, " ".join(["Its nodes carry other labels than when it was placed.", *missed])
    )
    key = f"relabelled:{domains}"
    note = Note(
        key=key, reason="NodesRelabelled", message=condition.message, warning=condition.status == "False"
    )
    turn.record([NewPlacementResult(result.to_row()), condition, note])


def _kept_condition(result: PlacementResult, message: str) -> Condition:
    is_kept = result.outcome is PlacementOutcome.MATCH
    return Condition(
        type=PLACEMENT_KEPT,
        status="True" if is_kept else "False",
        reason="AsRequested" if is_kept else "NodesRelabelled",
        message=message,
    )


def _is_breach(
    view: GroupView,
    observed: ObservedPods,
    nodes: Mapping[str, str],
    labels: Mapping[str, Mapping[str, str]],
) -> bool:
    """Whether a violation is the scheduler's doing, and not that of nodes that got other labels since.

    It is, if all pods were placed just now, or the others stand where the placement before had them.
    """
    before = view.row.placement_result
    fresh = {
        task.name
        for task in view.tasks
        if (before is None or task.replaces)
        and (pod := observed.pods.get(task.pod_name)) is not None
        and (placed := placed_at(pod)) is not None
        and view.now - placed < FRESH
    }
    rest = {task: node for task, node in nodes.items() if task not in fresh}
    if before is None or not fresh:
        return not rest
    domains = {
        (placed.path, placed.key): {path for path, _ in placed.domains}
        for placed in PlacementResult.from_row(before).sets
    }
    _, sets = outcomes_on(view.values.gang, view.placement, rest, labels)
    return not any(
        outcome.outside or outcome.domains.keys() - domains.get((outcome.path, outcome.level), set())
        for outcome in sets
        if outcome.required
    )


def _nodes(view: GroupView, observed: ObservedPods) -> dict[str, str] | None:
    """The node of each task by the task's name; None while a task has no node.

    Tasks that had ended when the last task was tried again are left out: no replacement is held to theirs.
    """
    nodes, ended = {}, _ended_before(view)
    for task in view.tasks:
        if task.pk in ended:
            continue
        pod = observed.pods.get(task.pod_name)
        node = pod.node_name if pod is not None and pod.node_name else task.node_name
        if not node:
            return None
        nodes[task.name] = node
    return nodes


def _ended_before(view: GroupView) -> set[int]:
    """The tasks that had ended when the last try beside peers began."""
    begun = [task.processing_start_time for task in view.tasks if task.replaces]
    last = max((at for at in begun if at is not None), default=None)
    if last is None or all(task.live for task in view.tasks):
        return set()
    ended = view.row.tasks.filter(latest=True, end_time__lte=last)
    return set(ended.values_list("pk", flat=True))


def _asks(view: GroupView) -> bool:
    """Whether any task names a topology key."""
    named = view.row.tasks.filter(latest=True).exclude(spec__requirements=[])
    return bool(view.row.constraints) or named.exists()


def _labels(view: GroupView, nodes: Mapping[str, str]) -> dict[str, dict[str, str]]:
    rows = Node.objects.filter(cluster_id=observations.cluster_of(view), name__in=set(nodes.values()))
    return dict(rows.values_list("name", "labels"))


def _notes(result: PlacementResult, missed: Sequence[str]) -> tuple[Note, ...]:
    if not missed:
        return ()
    degraded = result.outcome is PlacementOutcome.DEGRADED
    reason = "PlacementDegraded" if degraded else "PlacementViolated"
    return (Note(key=f"got:{result.places}", reason=reason, message=" ".join(missed), warning=True),)
