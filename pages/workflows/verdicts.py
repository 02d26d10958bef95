"""An explanation and its verdict as a page shows them. Pure: JSON of ``workflows.explain.report`` in.

Whatever keys an explanation has beside those told here in words are shown as evidence, as they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pages.workflows.evidence import Evidence, evidence
from pages.workflows.words import set_words
from scheduling.fit.snapshot import OTHERS
from scheduling.sentences import agree, count_of
from web.times import read_instant
from workflows.explain.obstacles import ANOTHER_WORKFLOW

MOST_TOLD = 20
"""Waiting groups told at length; of more, each in one line."""

_TOLD = {"group", "status", "why", "sentence", "since", "help", "feasibility", "conditions"}
_UPSTREAM = "upstream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """A domain that lacks least: its room for tasks, now and when empty, and who is in the way, on what."""

    path: str
    free: int
    empty: int
    missing: int
    closed: int
    holders: tuple[tuple[str, str], ...]
    free_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetShown:
    said: str
    nearest: tuple[Nearest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictShown:
    word: str
    tone: str
    symbol: str
    about: str
    sets: tuple[SetShown, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitShown:
    """Why one group waits."""

    group: str
    why: str
    sentence: str
    since: datetime | None
    help: str
    verdict: VerdictShown | None
    conditions: tuple[tuple[str, str], ...]
    more: tuple[tuple[str, Evidence], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitsShown:
    """Those told at length, and those of which a line says all there is."""

    long: tuple[WaitShown, ...]
    short: tuple[WaitShown, ...]
    nameless: tuple[str, ...] = (ANOTHER_WORKFLOW, OTHERS)


def waits_shown(explained: Sequence[Mapping[str, Any]]) -> WaitsShown:
    """Put explanations in order: first those about which there is something to be done."""
    shown = [_wait(one) for one in explained]
    long = [one for one in shown if one.why != _UPSTREAM][:MOST_TOLD]
    told = {one.group for one in long}
    return WaitsShown(long=tuple(long), short=tuple(one for one in shown if one.group not in told))


def _wait(one: Mapping[str, Any]) -> WaitShown:
    verdict = one.get("feasibility")
    conditions = [each for each in one.get("conditions") or () if each.get("status") == "True"]
    return WaitShown(
        group=one["group"],
        why=str(one["why"]).replace("_", " "),
        sentence=one["sentence"],
        since=read_instant(one.get("since")),
        help=one.get("help") or "",
        verdict=_verdict(verdict) if verdict else None,
        conditions=tuple((each.get("type", ""), each.get("message", "")) for each in conditions),
        more=tuple(
            (key.replace("_", " "), evidence(one[key])) for key in one if key not in _TOLD and one[key]
        ),
    )


_ANSWERS = {
    "now": ("Fits now", "✓", "good"),
    "not_now": ("Would fit when something ends", "◷", "warn"),
    "never": ("Never fits", "✕", "bad"),
}


def _verdict(one: Mapping[str, Any]) -> VerdictShown:
    word, symbol, tone = _ANSWERS.get(one["verdict"], (str(one["verdict"]), "?", ""))
    about = [f"Computed for scheduler {one['scheduler']} over {count_of(one['nodes'], 'node')}"]
    if synced := read_instant(one.get("nodes_synced_at")):
        about.append(f", listed at {synced:%Y-%m-%d %H:%M:%S} UTC and watched since")
    about.append("; the scheduler decides.")
    if one["verdict"] == "not_now" and not one.get("proven", True):
        about.append(" It may in truth never fit: the search was not complete.")
    if one.get("another_order"):
        about.append(" With its sets in another order it would fit now.")
    sets = tuple(map(_set, one.get("sets") or ()))
    return VerdictShown(word=word, symbol=symbol, tone=tone, about="".join(about), sets=sets)


def _set(one: Mapping[str, Any]) -> SetShown:
    nearest = tuple(map(_nearest, one.get("nearest") or ()))
    return SetShown(said=_said(one), nearest=nearest)


def _said(one: Mapping[str, Any]) -> str:
    """What a set asks for, and in how many domains there is room for it."""
    tasks = count_of(one["tasks"], "task")
    if one.get("key") is None:
        return f"The whole group, {tasks}, in the pool."
    path = one.get("path")
    each = (
        f", in each of {one['alike']} sets"
        if one.get("alike", 1) > 1
        else f" of set {set_words(path)}"
        if path
        else ""
    )
    text = (
        f"{tasks}{each} must share one {one['key']}: of {count_of(one['domains'], 'domain')}, "
        f"{one['fit_now']} {agree(one['fit_now'], 'has', 'have')} room now and {one['fit_empty']} when empty."
    )
    if one.get("unlabelled"):
        text += f" {count_of(one['unlabelled'], 'node')} with room cannot be used: a label is missing."
    return text


def _nearest(room: Mapping[str, Any]) -> Nearest:
    holders = tuple((one["name"], count_of(one["nodes"], "node")) for one in room.get("holders") or ())
    return Nearest(
        path="/".join(room["path"]) or "the whole pool",
        free=room["free"],
        empty=room["empty"],
        missing=room["missing"],
        closed=room.get("closed", 0),
        holders=holders,
        free_at=read_instant(room.get("free_at")),
    )
