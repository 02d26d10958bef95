"""Making waiting replacements again whose peers have ended or moved.

A replacement is held to its peers' domain by node labels (``domains.DomainPins``), which a pod cannot change.
While it waits, its peers may all end, those of a rack that lost power for example: then the domain that it
waits for is nobody's, and may never have room again. Or the first peers of its set get nodes only now, in a
domain that it was not held to. Such a pod, which has no node, is replaced by a further try. That is
crash-safe, as every retry is, and does not count against the task's retries. A pod whose observed digest does
not say what it is held to is left alone.
"""

import json
from collections.abc import Mapping

from scheduling.sentences import plain_listing
from workflows.lifecycle.statuses import TaskStatus
from workflows.reconcile.assess.follow import ObservedPods
from workflows.reconcile.assess.recovering import next_try
from workflows.reconcile.objects.domains import DomainPins
from workflows.reconcile.turn import StepResult, Turn
from workflows.reconcile.view.group_reader import GroupReader
from workflows.reconcile.view.group_view import TaskView
from workflows.services.changes import Change, TaskMove


def repin(turn: Turn) -> StepResult:
    """Make waiting replacements again where their pins no longer hold. Raises ClusterError.

    Only rarely is there one, so the cluster itself is asked whether its pod still has no node.
    """
    view, observed = turn.view, turn.observed
    waiting = {
        task.name: task for task in view.scheduling if task.replaces and waits_for_node(task, observed)
    }
    if not waiting:
        return turn
    pins = DomainPins(view)
    if not pins.are_known:
        return turn
    sentences: dict[str, str] = {}
    for task_try in view.values.tasks:
        task = waiting.get(task_try.name)
        if task is None:
            continue
        before = read_pins(observed.pods[task.pod_name].digest.get("pins"))
        after = pins.of(task_try)
        if before is not None and before != after:
            sentences[task.name] = _sentence(before, after)
    if not sentences:
        return turn
    pods = GroupReader(turn.cluster, view.uuid, view.placement).pods()
    changes: list[Change] = []
    for name, message in sentences.items():
        task = waiting[name]
        if (pod := pods.get(task.pod_name)) and not pod.node:
            changes.append(TaskMove(pk=task.pk, status=str(TaskStatus.RESCHEDULED), message=message))
            changes.append(next_try(task, generation=task.generation))
    return turn.moved(changes) if changes else turn


def waits_for_node(task: TaskView, observed: ObservedPods) -> bool:
    """Whether its pod is there and has no node."""
    pod = observed.pods.get(task.pod_name)
    return pod is not None and not (pod.absent or pod.deleting or pod.node_name)


def read_pins(text: object) -> Mapping[str, str] | None:
    """The pins that a pod's annotation names; None for a text that is missing or not ours."""
    try:
        pins = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    is_ours = isinstance(pins, dict) and all(isinstance(value, str) for value in pins.values())
    return pins if is_ours else None


def _sentence(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Why the try is replaced."""
    if not after:
        return f"Its peers in {_domain(before)} have ended: it is no longer held to them."
    return f"Its peers run in {_domain(after)} now: it is held to that."


def _domain(pins: Mapping[str, str]) -> str:
    return plain_listing([f"{label} {value}" for label, value in pins.items()])
