"""Why a workflow's groups wait, put together for whoever asks: a reason each, its evidence, what would help.

The reason and its evidence are what the last look at the group kept in its row. Where a place is what it
lacks, the verdict of ``scheduling.fit`` says which domains are too small now, by how much, who holds them and
until when. Nothing is asked of a cluster.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pools.selectors import Caller
from scheduling.fit.verdict import Answer
from web.times import naive_utc
from workflows.explain.reasons import HELP, Why
from workflows.explain.summary import group_sentence, status_sentence
from workflows.feasibility.report import UNKNOWN, feasibility
from workflows.lifecycle import patience
from workflows.lifecycle.statuses import TERMINAL
from workflows.models import TaskGroup
from workflows.reconcile.group_view import group_values
from workflows.values.placement import GroupPlacement

Json = dict[str, Any]

PLACELESS = frozenset({Why.TOPOLOGY, Why.CAPACITY, Why.SCHEDULER, Why.SILENT, Why.QUOTA, Why.LABELS})
"""Reasons about which the nodes tell more; of channels and drivers they tell nothing."""

NOW = Answer.NOW.value

MOST_VERDICTS = 20
"""Groups of one request whose verdict is computed; each costs up to some tenths of a second on many nodes."""


def explain(groups: Sequence[TaskGroup], *, user: Caller, now: datetime) -> list[Json]:
    """Explain to a user each group that waits, in order; a group that runs, or has ended, is left out.

    Groups came with ``backend``.
    """
    waiting = [group for group in groups if group.waiting_reason and group.status not in TERMINAL]
    judged = [group for group in waiting if group.waiting_why in PLACELESS][:MOST_VERDICTS]
    verdicts = {group.pk: _verdict(group, user=user, now=now) for group in judged}
    return [_explained(group, verdicts.get(group.pk), now=now) for group in waiting]


def in_one_line(status: str, explained: Sequence[Json]) -> str:
    """How a workflow stands: what its first waiting group waits for, and how many more wait."""
    return status_sentence(status, [(one["group"], one["why"], one["sentence"]) for one in explained])


def _explained(group: TaskGroup, verdict: Json | None, *, now: datetime) -> Json:
    held = patience.patience_sentence(group.constraints, since=group.unplaced_since, now=now)
    why = Why(group.waiting_why) if group.waiting_why else Why.SCHEDULER
    beside = _beside(verdict, why) if verdict else ""
    if held and beside:  # the verdict is on what it is held to now, not on what it will settle for
        beside = f"While it is so held, {beside[0].lower()}{beside[1:]}"
    said = [group_sentence(group, now=now), beside]
    if verdict and verdict["verdict"] != NOW and why in {Why.TOPOLOGY, Why.CAPACITY}:
        why = Why.TOPOLOGY if verdict["room"] >= verdict["tasks"] else Why.CAPACITY
    if held and why in PLACELESS:
        why = Why.PATIENCE
    return {
        "group": group.name,
        "status": group.status,
        "why": why.value,
        "sentence": " ".join(filter(None, said)),
        "since": naive_utc(group.waiting_since),
        "help": HELP[why],
        "evidence": group.waiting_evidence | _of_patience(group, held),
        "feasibility": verdict,
        "conditions": group.conditions,
    }


def _of_patience(group: TaskGroup, held: str) -> Json:
    """Until when which keys are held as required; nothing where none is."""
    if not held:
        return {}
    keys = [line["key"] for line in group.constraints if line.get("waitSeconds") and not line["relaxed"]]
    until = naive_utc(patience.next_relaxation(group.constraints, group.unplaced_since))
    return {"patience": {"keys": list(dict.fromkeys(keys)), "next_relaxation_at": until}}


def _beside(verdict: Json, why: Why) -> str:
    """The verdict beside what the scheduler says: where that finds no room, none is claimed against it."""
    if verdict["verdict"] == NOW and why == Why.QUOTA:
        return "But for that, it would fit now."
    if verdict["verdict"] != NOW or why not in {Why.TOPOLOGY, Why.CAPACITY}:
        return str(verdict["sentence"])
    unseen = "" if verdict["others_known"] else "other tenants' pods, "
    return (
        "By what is observed there would be room, so something that is not observed stands in the way "
        f"({unseen}a quota, a resource claim, a pod that has only just come or gone)."
    )


def _verdict(group: TaskGroup, *, user: Caller, now: datetime) -> Json | None:
    """Whether it would fit now; None where nothing is known of the nodes."""
    placement = GroupPlacement.from_json(group.placement)
    cluster = placement.cluster_uid or group.backend.cluster_id
    values = group_values(group, placement)
    found = feasibility([values], cluster=cluster, user=user, now=now)
    return next((one for one in found if one["verdict"] != UNKNOWN), None)
