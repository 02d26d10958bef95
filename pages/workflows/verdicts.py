"""An explanation and its verdict as a page shows them. Pure: values of ``workflows.explain.report`` in.

The evidence is JSON whose keys differ with the reason; it is shown as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pages.workflows.evidence import Evidence, evidence
from scheduling.fit.snapshot import OTHERS
from scheduling.fit.verdict import Answer, DomainCapacity, SetVerdict
from scheduling.requirements import describe
from scheduling.sentences import agree, count_of
from workflows.explain.obstacles import ANOTHER_WORKFLOW
from workflows.explain.reasons import Why
from workflows.explain.report import WaitExplanation
from workflows.feasibility.report import FeasibilityReport

MOST_TOLD = 20
"""Waiting groups told at length; of more, each in one line."""


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


def waits_shown(waits: Sequence[WaitExplanation]) -> WaitsShown:
    """Put explanations in order: first those about which there is something to be done."""
    shown = [_wait(wait) for wait in waits]
    long = [row for row, wait in zip(shown, waits, strict=True) if wait.why is not Why.UPSTREAM][:MOST_TOLD]
    groups = {row.group for row in long}
    return WaitsShown(long=tuple(long), short=tuple(row for row in shown if row.group not in groups))


def _wait(wait: WaitExplanation) -> WaitShown:
    conditions = [condition for condition in wait.conditions if condition.get("status") == "True"]
    return WaitShown(
        group=wait.group,
        why=wait.why.replace("_", " "),
        sentence=wait.sentence,
        since=wait.since,
        help=wait.help,
        verdict=_verdict(wait.report) if wait.report else None,
        conditions=tuple(
            (condition.get("type", ""), condition.get("message", "")) for condition in conditions
        ),
        more=(("evidence", evidence(wait.all_evidence)),) if wait.all_evidence else (),
    )


_ANSWERS = {
    Answer.NOW: ("Fits now", "✓", "good"),
    Answer.NOT_NOW: ("Would fit when something ends", "◷", "warn"),
    Answer.NEVER: ("Never fits", "✕", "bad"),
}


def _verdict(report: FeasibilityReport) -> VerdictShown | None:
    verdict = report.verdict
    if verdict is None:
        return None
    word, symbol, tone = _ANSWERS[verdict.answer]
    about = [f"Computed for scheduler {report.scheduler} over {count_of(report.nodes, 'node')}"]
    if report.synced_at:
        about.append(f", listed at {report.synced_at:%Y-%m-%d %H:%M:%S} UTC and watched since")
    about.append("; the scheduler decides.")
    if verdict.answer is Answer.NOT_NOW and not verdict.proven:
        about.append(" It might really never fit: the search hit its limit.")
    if verdict.another_order:
        about.append(" With its sets in another order it would fit now.")
    return VerdictShown(
        word=word, tone=tone, symbol=symbol, about="".join(about), sets=tuple(map(_set, verdict.sets))
    )


def _set(entry: SetVerdict) -> SetShown:
    return SetShown(said=_set_sentence(entry), nearest=tuple(map(_nearest, entry.nearest)))


def _set_sentence(entry: SetVerdict) -> str:
    """The request of a set, and in how many domains there is room for it."""
    tasks = count_of(entry.tasks, "task")
    if entry.key is None:
        return f"The whole group, {tasks}, in the pool."
    each = ""
    if entry.alike > 1:
        each = f", in each of {entry.alike} sets"
    elif entry.path:
        each = f" of set {describe(entry.path)}"
    text = (
        f"{tasks}{each} must share one {entry.key}: of {count_of(entry.domains, 'domain')}, "
        f"{entry.fit_now} {agree(entry.fit_now, 'has', 'have')} room now and {entry.fit_empty} when empty."
    )
    if entry.unlabelled:
        text += f" {count_of(entry.unlabelled, 'node')} with room cannot be used: a label is missing."
    return text


def _nearest(domain: DomainCapacity) -> Nearest:
    return Nearest(
        path="/".join(domain.path) or "the whole pool",
        free=domain.free,
        empty=domain.empty,
        missing=domain.missing,
        closed=domain.closed,
        holders=tuple((holder.name, count_of(holder.nodes, "node")) for holder in domain.holders),
        free_at=domain.free_at,
    )
