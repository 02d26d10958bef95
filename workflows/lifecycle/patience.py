"""What a group with patience needs done next: a pure decision on what was seen of it.

Its clock runs while every task has a pod and no pod has a node, and counts from the first look that found
it so through a cluster that answers. Time in which the cluster cannot be reached afterwards counts too: its
scheduler went on trying all the while. A preference that is due is relaxed in two steps, each of which
may be the last one of a worker: the decision in the row, which is never taken back, then the edit of the
pod group. The pod group carries the stage it holds in an annotation, so whatever stands between the two is
seen from them alone, and one step (``EDIT``) serves the first try, a crash and a gang that is made anew.

A running gang is never edited: relaxing it would let a task that is tried again leave its peers.
Rejected: comparing whole specs, which a scheduler's webhook may have completed and a resized gang changes.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from scheduling.requirements import SetPath, describe
from scheduling.sentences import count_of, plain_listing
from workflows.values.observation import STAGE_ANNOTATION

Line = Mapping[str, Any]
"""A constraint as its row keeps it (``AppliedConstraint.as_json``)."""


class Do(StrEnum):
    """What is due. ``EDIT`` brings the pod group to the row's stage, or says why it must not be."""

    NOTHING = "nothing"
    BEGIN = "begin"
    FORGET = "forget"
    RELAX = "relax"
    EDIT = "edit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """What was seen of a group with patience.

    ``begins`` says when each stage begins (``scheduling.stages``), ``stage`` is the row's, ``held`` its pod
    group's (None: none seen). ``whole``: every task has its pod, and none has or had a node. ``bound``: one
    has, or has finished. ``told`` says that the row's constraints are those of ``held``.
    """

    begins: Sequence[float]
    stage: int
    held: int | None
    since: datetime | None
    now: datetime
    whole: bool
    bound: bool
    reachable: bool
    told: bool


@dataclass(frozen=True, slots=True)
class Due:
    """What to do now, with the stage to relax to; ``at`` is when to look again without news."""

    do: Do
    stage: int = 0
    at: datetime | None = None


def due(seen: Waits) -> Due:
    """The next step of a group with patience."""
    if seen.since is not None and not seen.whole:
        return Due(Do.FORGET)
    if seen.held is not None and _differs(seen, seen.held):
        return Due(Do.EDIT)
    last = len(seen.begins) - 1
    if not seen.whole or not seen.reachable or seen.stage >= last:
        return Due(Do.NOTHING)
    if seen.since is None:
        return Due(Do.BEGIN)
    reached = bisect_right(seen.begins, (seen.now - seen.since).total_seconds()) - 1
    if reached > seen.stage:
        return Due(Do.RELAX, stage=reached)
    return Due(Do.NOTHING, at=seen.since + timedelta(seconds=seen.begins[seen.stage + 1]))


def _differs(seen: Waits, held: int) -> bool:
    """Whether the pod group is behind and may be edited, or the row says another thing than it."""
    return (held < seen.stage and not seen.bound) or not seen.told


def stage_of(annotations: Mapping[str, str] | None) -> int:
    """The stage that a pod group holds, by its annotations; what is no number was not written by us."""
    text = (annotations or {}).get(STAGE_ANNOTATION, "0")
    return int(text) if text.isascii() and text.isdigit() else 0


def has_patience(lines: Iterable[Line]) -> bool:
    return any(line.get("waitSeconds") for line in lines)


def tells(lines: Iterable[Line], *, waited: float) -> bool:
    """Whether these constraints are those of a stage that begins after so many seconds."""
    return all(
        line["relaxed"] == (line["waitSeconds"] <= waited) for line in lines if line.get("waitSeconds")
    )


def next_relaxation(lines: Iterable[Line], since: datetime | None) -> datetime | None:
    """When the next preference is relaxed if nothing is placed before; None without one or a clock."""
    waits = [line["waitSeconds"] for line in _held(lines)]
    return since + timedelta(seconds=min(waits)) if since is not None and waits else None


def began(lines: Sequence[Line]) -> str:
    """What is said when the clock begins."""
    said = [f"{_words(line)} for {line['waitSeconds']:g} seconds" for line in _held(lines)]
    return (
        f"All pods are there without a node. Held as required before it is preferred: {plain_listing(said)}."
    )


def relaxed(before: Sequence[Line], after: Sequence[Line], *, group: str) -> str:
    """What the decision to relax says; empty if no constraint that took effect changes."""
    held = [_place(line) for line in _held(before)]
    said = [
        f"{_words(line)} (held for {line['waitSeconds']:g} seconds)"
        for line in after
        if line.get("relaxed") and _place(line) in held
    ]
    if not said:
        return ""
    relaxed = plain_listing(said)
    return f'Group "{group}" found no place. No longer required but preferred from now on: {relaxed}.'


def left_out(lines: Sequence[Line]) -> str:
    """What is said when a pod got a node before its pod group could be edited; ``lines`` still hold."""
    return (
        "A pod of the group had a node just before the pod group was to be edited, so the edit was left out. "
        f"Still required as long as this gang lives: {plain_listing(map(_words, _held(lines)))}. "
        "Made anew, it starts relaxed."
    )


def caught_up(lines: Sequence[Line]) -> str:
    """What is said when a gang made anew starts with what was decided before."""
    said = [_words(line) for line in lines if line.get("relaxed")]
    return f"The gang is made anew. Preferred from its start, as decided before: {plain_listing(said)}."


def held_words(lines: Sequence[Line], *, since: datetime | None, now: datetime) -> str:
    """For how long a waiting group is still held to what it prefers; nothing without a running clock."""
    if since is None:
        return ""
    waited = (now - since).total_seconds()
    keys: dict[float, dict[str, None]] = {}
    for line in _held(lines):
        keys.setdefault(line["waitSeconds"], {})[line["key"]] = None
    said = []
    for seconds, named in sorted(keys.items()):
        left = round(seconds - waited)
        more = f"for {count_of(left, 'more second')}"
        until = f"{more}, then as a preference" if left > 0 else "and is about to be relaxed"
        kinds = plain_listing(f"one {key}" for key in named)
        said.append(f"It is held to {kinds} as required {until}.")
    return " ".join(said)


def _held(lines: Iterable[Line]) -> list[Line]:
    """The preferences that are still held as required."""
    return [line for line in lines if line.get("waitSeconds") and not line["relaxed"]]


def _place(line: Line) -> tuple[SetPath, str]:
    return _path(line), line["key"]


def _path(line: Line) -> SetPath:
    return tuple((pair["key"], pair["group"]) for pair in line["set"])


def _words(line: Line) -> str:
    return describe(_path(line))
