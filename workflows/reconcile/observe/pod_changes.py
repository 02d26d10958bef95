"""Telling what the cluster changed of a group's pods: a condition, and an event for each change.

Pods are read until their tasks' rows say all that there is of them, so a later look sees fewer. A condition
therefore stays for the attempt and only grows.
"""

from collections.abc import Iterable

from pools import conditions
from pools.conditions import Condition
from scheduling import names
from workflows.reconcile.turn import Turn
from workflows.services.attempt_rows import PODS_CHANGED
from workflows.services.changes import Note
from workflows.values.observation import PodSeen
from workflows.values.pod_changes import PodChange, sentence_of


def changes_of(pods: Iterable[PodSeen]) -> list[PodChange]:
    """What was changed of these pods, each change once."""
    changes = [change for pod in pods for change in pod.digest.get("changes") or ()]
    return list(dict.fromkeys(PodChange(**change) for change in changes))


def record_pod_changes(turn: Turn) -> Turn:
    """Keep the condition, which begins with the first change."""
    row, changes = turn.view.row, changes_of(turn.observed.pods.values())
    before = conditions.find(row.conditions, PODS_CHANGED)
    if not changes or (before and all(change.words in before["message"] for change in changes)):
        return turn
    message = sentence_of(changes)
    if before and message in before["message"]:
        return turn
    condition = Condition(
        type=PODS_CHANGED,
        status="True",
        reason="ByCluster",
        message=f"{before['message']} {message}" if before else message,
    )
    key = f"pods-changed:{names.digest(message, length=16)}"
    note = Note(key=key, reason=PODS_CHANGED, message=f"Group {row.name}: {message}", warning=True)
    turn.record([condition, note])
    return turn
