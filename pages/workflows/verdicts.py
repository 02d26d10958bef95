"""An explanation and its verdict as a page shows them. Pure: values of ``workflows.explain.report`` in.

The evidence is JSON whose keys differ with the reason; it is shown as it is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from pages.nearest_domains import NearestDomain, nearest_domains
from pages.workflows.evidence import Evidence, evidence
from scheduling.fit.contention import PreemptionAnswer
from scheduling.fit.snapshot import OTHERS
from scheduling.fit.verdict import Answer, Obstacle, SetVerdict, Verdict
from scheduling.sentences import agree, count_of
from scheduling.topology.requirements import describe
from workflows.explain.reasons import Why
from workflows.explain.report import WaitExplanation
from workflows.feasibility.verdict.report import FeasibilityReport
from workflows.feasibility.verdict.sentences import ANOTHER_WORKFLOW, preemptible
from workflows.feasibility.verdict.unexamined import NOT_EXAMINED

MOST_DETAILED = 20
"""Waiting groups told at length; of more, each in one line."""

NAMELESS = (ANOTHER_WORKFLOW, OTHERS)
"""Holders that have no page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetVerdictView:
    sentence: str
    nearest: tuple[NearestDomain, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictView:
    word: str
    tone: str
    symbol: str
    about: str
    sets: tuple[SetVerdictView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitView:
    """Why one group waits."""

    group: str
    why: str
    sentence: str
    since: datetime | None
    help: str
    verdict: VerdictView | None
    conditions: tuple[tuple[str, str], ...]
    evidence: Evidence | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitsView:
    """``long`` has everything about a group, ``short`` one sentence."""

    long: tuple[WaitView, ...]
    short: tuple[WaitView, ...]
    nameless: tuple[str, ...] = NAMELESS


def waits_view(waits: Sequence[WaitExplanation]) -> WaitsView:
    """Sort explanations: those that somebody can act on come first."""
    views = [_wait(wait) for wait in waits]
    long = [row for row, wait in zip(views, waits, strict=True) if wait.why is not Why.UPSTREAM][
        :MOST_DETAILED
    ]
    groups = {row.group for row in long}
    return WaitsView(long=tuple(long), short=tuple(row for row in views if row.group not in groups))


def _wait(wait: WaitExplanation) -> WaitView:
    conditions = [condition for condition in wait.conditions if condition.get("status") == "True"]
    return WaitView(
        group=wait.group,
        why=wait.why.replace("_", " "),
        sentence=wait.sentence,
        since=wait.since,
        help=wait.help,
        verdict=verdict_view(wait.report) if wait.report else None,
        conditions=tuple(
            (condition.get("type", ""), condition.get("message", "")) for condition in conditions
        ),
        evidence=evidence(wait.all_evidence) if wait.all_evidence else None,
    )


_ANSWERS = {
    Answer.NOW: ("Fits now", "✓", "good"),
    Answer.NOT_NOW: ("Would fit when something ends", "◷", "warn"),
    Answer.NEVER: ("Never fits", "✕", "bad"),
}


_WAITS_FOR = {
    Obstacle.QUOTA: "Would fit when its queue has room",
    Obstacle.PRIORITY: "Would fit if others did not go first",
}


def verdict_view(report: FeasibilityReport) -> VerdictView | None:
    verdict = report.verdict
    if verdict is None:
        return None
    word, symbol, tone = _ANSWERS[verdict.answer]
    if verdict.answer is Answer.NOT_NOW and verdict.obstacle:
        word = _WAITS_FOR.get(verdict.obstacle, word)
    about = [f"Computed for scheduler {report.scheduler} over {count_of(report.nodes, 'node')}"]
    about.append(f"; the scheduler decides. {report.freshness.sentence}")
    if verdict.answer is Answer.NOW and report.is_uncertain:
        word, tone = "May fit now", "warn"
    if report.freshness.is_old:
        word, tone = f"{word}, by old observations", "warn"
    if verdict.answer is Answer.NOT_NOW and not verdict.proven and not verdict.doubts:
        about.append(" It might really never fit: the search hit its limit.")
    about += _queue(verdict)
    left_out = " ".join(NOT_EXAMINED[code] for code in report.not_examined)
    if left_out:
        about.append(f" Not looked at: {left_out}")
    if verdict.another_order:
        about.append(" With its sets in another order it would fit now.")
    return VerdictView(
        word=word, tone=tone, symbol=symbol, about="".join(about), sets=tuple(map(_set, verdict.sets))
    )


def _queue(verdict: Verdict) -> Iterator[str]:
    """The work of the queue that goes before the group, and that may be preempted for it."""
    place, preemption = verdict.contention.place, verdict.contention.preemption
    if place and place.groups:
        count = count_of(place.groups, "group")
        younger = f", {place.younger} of them younger" if place.younger else ""
        yield f" {count} of its queue {agree(place.groups, 'goes', 'go')} first{younger}."
    if preemption.answer is PreemptionAnswer.HELPS:
        yield f" May be preempted for it: {preemptible(preemption)}."


def _set(entry: SetVerdict) -> SetVerdictView:
    return SetVerdictView(sentence=_set_sentence(entry), nearest=nearest_domains(entry.nearest))


def _set_sentence(entry: SetVerdict) -> str:
    """The request of a set, and in how many domains there is room for it."""
    tasks = count_of(entry.tasks, "task")
    if entry.key is None:
        return f"The whole group, {tasks}, in the pool."
    scope = ""
    if entry.alike > 1:
        scope = f", in each of {entry.alike} sets"
    elif entry.path:
        scope = f" of set {describe(entry.path)}"
    return (
        f"{tasks}{scope} must share one {entry.key}: of {count_of(entry.domains, 'domain')}, "
        f"{entry.fit_now} {agree(entry.fit_now, 'has', 'have')} room now and {entry.fit_empty} when empty."
    )
