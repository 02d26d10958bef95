"""The next step of a group with patience: a pure decision on what was observed of it.

Its clock runs while every task has a pod and no pod has a node, and counts from the first reconciliation that
observed this through a cluster that answers. Time in which the cluster cannot be reached afterwards counts
too: its scheduler went on trying all the while. A preference that is due is relaxed in two steps, each of
which may be the last one of a worker: the decision in the row, which is never taken back, then the edit of
the pod group. The pod group carries its stage in an annotation, so whatever stands between the two follows
from them alone, and one step (``EDIT``) serves the first try, a crash and a gang that is created anew.

A running gang is never edited: relaxing it would let a task that is tried again leave its peers.
Rejected: comparing whole specs, which a scheduler's webhook may have completed and a resized gang changes.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from scheduling.sentences import count_of, in_seconds, plain_listing
from scheduling.topology.requirements import SetPath, describe, path_in

GAVE_WAY = "PreferencesGaveWay"
RETURNED = "PreferencesReturned"
PREFERENCE_REASONS = (GAVE_WAY, RETURNED)
"""Reasons of events that preferences name fewer levels, or all levels again."""

ConstraintRow = Mapping[str, Any]
"""A constraint as the group's row keeps it (``AppliedConstraint.as_json``)."""


class PatienceAction(StrEnum):
    """``START`` and ``RESET`` are the clock's; ``EDIT`` brings the pod group to the row's stage if it may."""

    WAIT = "wait"
    START = "start"
    RESET = "reset"
    RELAX = "relax"
    EDIT = "edit"


@dataclass(frozen=True, slots=True, kw_only=True)
class PatienceFacts:
    """The observations of a group with patience."""

    stage_begins: Sequence[float]
    """The second at which each stage begins (``scheduling.gang.stages``)."""

    stage: int
    """The row's."""

    pod_group_stage: int | None
    """The pod group's; None: no pod group observed."""

    since: datetime | None
    """When the clock started."""

    now: datetime

    unplaced: bool
    """Whether every task has its pod, and none has or had a node."""

    bound: bool
    """Whether one has a node, or has finished."""

    reachable: bool

    recorded: bool
    """Whether the row's constraints are those of the pod group."""

    free_after: int = 0
    """After how many seconds its preferences may give way; 0: never."""

    has_row_levels: bool = True
    """Whether the preferences of the pod group name as many levels as the row says."""


@dataclass(frozen=True, slots=True)
class PatienceStep:
    """The action now, with the stage to relax to; ``at`` is when to decide again without a notification."""

    action: PatienceAction
    stage: int = 0
    at: datetime | None = None


def next_step(facts: PatienceFacts) -> PatienceStep:
    """The next step of a group with patience."""
    if facts.since is not None and not facts.unplaced:
        return PatienceStep(PatienceAction.RESET)
    if facts.pod_group_stage is not None and _differs(facts, facts.pod_group_stage):
        return PatienceStep(PatienceAction.EDIT)
    is_last = facts.stage >= len(facts.stage_begins) - 1
    if not facts.unplaced or not facts.reachable or (is_last and not facts.free_after):
        return PatienceStep(PatienceAction.WAIT)
    if facts.since is None:
        return PatienceStep(PatienceAction.START)
    stage = bisect_right(facts.stage_begins, (facts.now - facts.since).total_seconds()) - 1
    if stage > facts.stage:
        return PatienceStep(PatienceAction.RELAX, stage=stage)
    delays = [] if is_last else [facts.stage_begins[facts.stage + 1]]
    delays += [float(facts.free_after)] if facts.free_after else []
    times = [facts.since + timedelta(seconds=delay) for delay in delays]
    return PatienceStep(PatienceAction.WAIT, at=min((at for at in times if at > facts.now), default=None))


def _differs(facts: PatienceFacts, pod_group_stage: int) -> bool:
    """Whether the pod group is behind the row and may be edited, or the row records other constraints."""
    is_behind = pod_group_stage < facts.stage or not facts.has_row_levels
    return (is_behind and not facts.bound) or not facts.recorded


def may_give_way(facts: PatienceFacts) -> bool:
    """Whether preferences have blocked the group for so long that they may give way."""
    if facts.since is None or not (facts.unplaced and facts.reachable and facts.free_after):
        return False
    return facts.now >= facts.since + timedelta(seconds=facts.free_after)


def has_preference(rows: Iterable[ConstraintRow]) -> bool:
    return any(row["requirementType"] == "preferred" for row in rows)


def has_patience(rows: Iterable[ConstraintRow]) -> bool:
    return any(row.get("waitSeconds") for row in rows)


def are_of_stage(rows: Iterable[ConstraintRow], *, begins: float) -> bool:
    """Whether these constraints are those of the stage that begins at this second."""
    return all(row["relaxed"] == (row["waitSeconds"] <= begins) for row in rows if row.get("waitSeconds"))


def are_of_levels(rows: Iterable[ConstraintRow], *, keys: Sequence[str], count: int | None) -> bool:
    """Whether the preferences of these constraints name at most the first ``count`` keys; None: all."""
    return all(
        (bool(row.get("freed")), row.get("applied_key")) == _freedom(row, keys=keys, count=count)
        for row in rows
        if row["requirementType"] == "preferred"
    )


def _freedom(row: ConstraintRow, *, keys: Sequence[str], count: int | None) -> tuple[bool, str | None]:
    """Whether a preference gives way if so many keys may be named, and the key that it is applied at then."""
    is_required = row.get("waitSeconds") and not row["relaxed"]
    if count is None or is_required or keys.index(row["key"]) < count:
        return False, None
    return True, keys[count - 1] if count else None


def next_relaxation(rows: Iterable[ConstraintRow], since: datetime | None) -> datetime | None:
    """When the next preference is relaxed if no pod is placed before; None without one or a clock."""
    waits = [row["waitSeconds"] for row in _still_required(rows)]
    return since + timedelta(seconds=min(waits)) if since is not None and waits else None


def start_message(rows: Sequence[ConstraintRow]) -> str:
    """The event's message when the clock starts; empty if nothing is required for a while."""
    sets = [f"{_set_name(row)} for {in_seconds(row['waitSeconds'])}" for row in _still_required(rows)]
    if not sets:
        return ""
    return f"All pods exist without a node. Required at first, then preferred: {plain_listing(sets)}."


def relaxation_message(before: Sequence[ConstraintRow], after: Sequence[ConstraintRow], *, group: str) -> str:
    """The event's message when a stage begins; empty if no constraint that took effect changes."""
    required = [_place(row) for row in _still_required(before)]
    sets = [
        f"{_set_name(row)} (required for {in_seconds(row['waitSeconds'])})"
        for row in after
        if row.get("relaxed") and _place(row) in required
    ]
    if not sets:
        return ""
    relaxed = plain_listing(sets)
    return f'Group "{group}" found no place. No longer required but preferred from now on: {relaxed}.'


def left_out_message(rows: Sequence[ConstraintRow]) -> str:
    """The event's message when a pod got a node just before the edit; ``rows`` still apply."""
    return (
        "A pod of the group got a node just before its pod group was to be edited, so the edit was left out. "
        f"Still required as long as this gang lives: {plain_listing(map(_set_name, _still_required(rows)))}. "
        "A new gang of the group starts relaxed."
    )


def gave_way_message(rows: Sequence[ConstraintRow], *, group: str) -> str:
    """The event's message when preferences give way; ``rows`` are the constraints from now on."""
    freed = [row for row in rows if row.get("freed")]
    cut = [f"{_set_name(row)} as one {row['applied_key']}" for row in freed if row.get("applied_key")]
    dropped = [_set_name(row) for row in freed if not row.get("applied_key")]
    sentences = [
        f'Group "{group}" waits, and there is room for it now that its preferences hide from the scheduler.',
        f"From now on preferred: {plain_listing(cut)}." if cut else "",
        f"Preferred no longer: {plain_listing(dropped)}." if dropped else "",
    ]
    return " ".join(filter(None, sentences))


def preferences_stay_message() -> str:
    """The event's message when a pod got a node just before its pod group's preferences were changed."""
    return (
        "A pod of the group got a node just before its pod group was to be edited, so the edit was left out: "
        "preferences stay as they were."
    )


def returned_message(before: Sequence[ConstraintRow], *, group: str) -> str:
    """The event's message when preferences return; ``before`` are the constraints until now."""
    sets = plain_listing(_set_name(row) for row in before if row.get("freed"))
    return (
        f'Group "{group}" got no place although its preferences gave way, and they are not in its way at '
        f"present. They apply again: {sets}."
    )


def caught_up_message(rows: Sequence[ConstraintRow]) -> str:
    """The event's message when a new gang starts at the stage that was decided before."""
    sets = [_set_name(row) for row in rows if row.get("relaxed")]
    return f"The gang is created anew. Preferred from its start, as decided before: {plain_listing(sets)}."


def patience_sentence(rows: Sequence[ConstraintRow], *, since: datetime | None, now: datetime) -> str:
    """For how long a waiting group's preferences are still required; empty without a running clock."""
    if since is None:
        return ""
    waited = (now - since).total_seconds()
    keys: dict[float, dict[str, None]] = {}
    for row in _still_required(rows):
        keys.setdefault(row["waitSeconds"], {})[row["key"]] = None
    sentences = []
    for seconds, names in sorted(keys.items()):
        left = round(seconds - waited)
        more = f"for {count_of(left, 'more second')}"
        until = f"{more}, then as a preference" if left > 0 else "and is about to be relaxed"
        kinds = plain_listing(f"one {key}" for key in names)
        sentences.append(f"It is held to {kinds} as required {until}.")
    return " ".join(sentences)


def _still_required(rows: Iterable[ConstraintRow]) -> list[ConstraintRow]:
    """The preferences that are still applied as required."""
    return [row for row in rows if row.get("waitSeconds") and not row["relaxed"]]


def _place(row: ConstraintRow) -> tuple[SetPath, str]:
    return path_in(row["set"]), row["key"]


def _set_name(row: ConstraintRow) -> str:
    return describe(path_in(row["set"]))
