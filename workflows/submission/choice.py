"""Choosing the pool of a workflow: every check in each of several pools, one decision, and that is frozen.

The pool where the workflow fits now is taken, with the best outcome; else one whose scheduler may reclaim
room for all that waits; else the one where all that is in its way ends first. A pool to which the caller may
not submit is spoken of as one that does not exist.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import itemgetter
from typing import Any

from django.db.models import QuerySet

from pools.models import Pool
from pools.selectors import pools_allowed_to
from scheduling.errors import Busy, Conflict, Fault, InvalidSpec, LimitReached, NotFound, Path, TopologyError
from scheduling.fit.contention import DisplacementAnswer
from scheduling.fit.verdict import Answer
from scheduling.sentences import count_of, listing
from web.models import Profile
from web.policy import Action
from web.times import naive_utc
from workflows.feasibility.capacity.usage import free_gpus
from workflows.feasibility.verdict.report import UNKNOWN, FeasibilityReport
from workflows.spec import WorkflowSpec
from workflows.spec.syntax import quoted
from workflows.submission.accepted import AcceptedSubmission
from workflows.submission.request import ANY, SubmissionRequest

MOST_POOLS = 16
"""So many that accept the workflow are compared; each of them costs as much as a submission."""
MOST_TRIED = 64
"""So many are tried, where some do not accept it."""

_BEST_FIRST = (Answer.NOW.value, Answer.NOT_NOW.value, UNKNOWN, Answer.NEVER.value)
_PASSING = (LimitReached, Conflict)
"""The error of all pools together is the first of these that one has, since it may pass by itself."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A pool that would accept the workflow."""

    accepted: AcceptedSubmission

    @property
    def reports(self) -> Sequence[FeasibilityReport]:
        return self.accepted.feasibility

    @property
    def worst(self) -> FeasibilityReport:
        return max(self.reports, key=lambda report: _BEST_FIRST.index(report.word))

    @property
    def preferences_met(self) -> bool | None:
        values = [report.forecast.preferences_met for report in self.reports]
        return None if None in values else all(values)

    @property
    def broken_nodes(self) -> int | None:
        values = [report.forecast.broken_nodes for report in self.reports]
        return None if None in values else sum(value for value in values if value is not None)

    @property
    def free_at(self) -> datetime | None:
        waiting = [report.forecast.free_at for report in self.reports if report.answer is Answer.NOT_NOW]
        ends = [time for time in waiting if time is not None]
        return max(ends) if ends and len(ends) == len(waiting) else None

    @property
    def may_be_reclaimed(self) -> bool:
        """Whether its scheduler may reclaim room for each group that does not fit now."""
        waiting = [
            report.verdict for report in self.reports if report.verdict and report.answer is Answer.NOT_NOW
        ]
        answers = [verdict.contention.reclaim.answer for verdict in waiting]
        return bool(answers) and set(answers) == {DisplacementAnswer.POSSIBLE}

    def rank(self) -> tuple[float, ...]:
        """Sort key: the best pool comes first; of equal ones the one that is named first."""
        place = _BEST_FIRST.index(self.worst.word)
        if self.worst.answer is Answer.NOW:
            unproven = not all(report.is_proven for report in self.reports)
            return (place, unproven, not self.preferences_met, self.broken_nodes or 0)
        return (place, not self.may_be_reclaimed, self.free_at.timestamp() if self.free_at else math.inf)

    def as_json(self) -> dict[str, Any]:
        """The shape of REST."""
        return {
            "pool": self.accepted.pool.name,
            "chosen": False,
            "accepts": True,
            "verdict": self.worst.word,
            "sentence": self.worst.sentence,
            "preferences_met": self.preferences_met,
            "broken_nodes": self.broken_nodes,
            "free_at": naive_utc(self.free_at),
            "groups": [
                {"group": report.group, "verdict": report.word, "sentence": report.sentence}
                for report in self.reports
            ],
        }


def read_pools(texts: Iterable[str]) -> tuple[str, ...]:
    """The pools that texts name, with commas between them, each once.

    Raises InvalidSpec for a list that cannot be meant.
    """
    names = [name.strip() for text in texts for name in text.split(",")]
    distinct = tuple(dict.fromkeys(names))
    message = ""
    if "" in distinct:
        message = "A name is missing between the commas."
    elif ANY in distinct and len(distinct) > 1:
        message = f'"{ANY}" stands for all pools, so it is written alone.'
    elif len(distinct) > MOST_POOLS:
        message = f"There are {len(distinct)} pools; at most {MOST_POOLS} are accepted."
    if message:
        raise InvalidSpec(message, [Fault(("pools",), "value", message)])
    return distinct


def named_pools(request: SubmissionRequest) -> list[Pool]:
    """The pools that a request names, in its order. Raises NotFound for those that the caller may not use."""
    if request.pools == (ANY,):
        return _roomiest_first(_allowed(request).order_by("name"))
    return _by_name(request, request.pools)


def pools_of_document(request: SubmissionRequest, spec: WorkflowSpec) -> list[Pool]:
    """The pools that a document leaves to choose from; the caller's default pool where it names none.

    Raises NotFound for a pool that the caller may not use, InvalidSpec where there is none to choose from.
    """
    if spec.pool:
        (pool,) = _by_name(request, (spec.pool,))
        if spec.backend and pool.backend.name != spec.backend:
            message = (
                f'Pool "{pool.name}" is on backend "{pool.backend.name}", not on {quoted(spec.backend)}.'
            )
            raise _invalid(spec, ("workflow", "backend"), "backend_of_pool", message)
        return [pool]
    if spec.backend:
        if pools := _roomiest_first(_allowed(request).filter(backend__name=spec.backend).order_by("name")):
            return pools
        message = f"No pool to which you may submit is on a backend {quoted(spec.backend)}."
        raise _invalid(spec, ("workflow", "backend"), "unknown_backend", message)
    profile = Profile.objects.filter(user__pk=request.user.pk).first()
    if profile and profile.pool:
        return _by_name(request, (profile.pool,))
    message = "Nothing names a pool: neither the request, nor the document, nor your profile."
    message += _usable(request)
    raise _invalid(spec, ("workflow", "pool"), "no_pool", message)


def _by_name(request: SubmissionRequest, names: Sequence[str]) -> list[Pool]:
    rows = {pool.name: pool for pool in _allowed(request).filter(name__in=names)}
    if missing := [name for name in names if name not in rows]:
        raise _not_found(request, missing)
    return [rows[name] for name in names]


def _allowed(request: SubmissionRequest) -> QuerySet[Pool]:
    pools = pools_allowed_to(request.user, Action.WORKFLOW_CREATE)
    return pools.prefetch_related("topology_keys", "platforms")


def _roomiest_first(rows: QuerySet[Pool]) -> list[Pool]:
    """These pools; where not all can be compared, those with the most free GPUs come first."""
    pools = list(rows)
    if len(pools) <= MOST_POOLS:
        return pools
    free = free_gpus(pools)
    return sorted(pools, key=lambda pool: -free[pool.name])


def _not_found(request: SubmissionRequest, missing: Sequence[str]) -> NotFound:
    start = "There are no pools" if len(missing) > 1 else "There is no pool"
    names = listing(name[:63] for name in missing)
    return NotFound(f"{start} {names} to which you may submit.{_usable(request)}")


def _usable(request: SubmissionRequest) -> str:
    names = list(_allowed(request).order_by("name").values_list("name", flat=True)[:20])
    return f" You may submit to {', '.join(names)}." if names else ""


def _invalid(spec: WorkflowSpec, path: Path, code: str, message: str) -> InvalidSpec:
    return InvalidSpec(message, spec.locate_faults([Fault(path, code, message)]))


def choose(pools: Sequence[Pool], accept: Callable[[Pool], AcceptedSubmission]) -> AcceptedSubmission:
    """The submission to the best of these pools, with the verdicts of all. Raises where no pool accepts.

    Of more pools than can be compared the first are, and a warning says so.
    """
    best: _Candidate | None = None
    verdicts: list[tuple[tuple[float, ...], dict[str, Any]]] = []
    errors: dict[str, TopologyError] = {}
    for pool in pools[:MOST_TRIED]:
        if len(verdicts) == MOST_POOLS:
            break
        try:
            candidate = _Candidate(accept(pool))
        except TopologyError as error:
            errors[pool.name] = error.with_traceback(None)  # its frames hold what was rendered
            continue
        verdicts.append((candidate.rank(), candidate.as_json()))
        if best is None or candidate.rank() < best.rank():  # of the others only the verdicts are kept
            best = candidate
    if best is None:
        raise _refusal(errors, untried=len(pools) - len(errors))
    first, *others = (verdict for _, verdict in sorted(verdicts, key=itemgetter(0)))
    choice = [{**first, "chosen": True}, *others, *(_refused(name, error) for name, error in errors.items())]
    return replace(
        best.accepted, choice=tuple(choice), warnings=[*best.accepted.warnings, *_left_out(pools, choice)]
    )


def _left_out(pools: Sequence[Pool], choice: Sequence[Mapping[str, Any]]) -> list[str]:
    if len(choice) == len(pools):
        return []
    return [f"Of {len(pools)} pools {len(choice)} were tried: those with the most free GPUs."]


def _refused(pool: str, error: TopologyError) -> dict[str, Any]:
    empty = dict.fromkeys(("preferences_met", "broken_nodes", "free_at"))
    return {
        "pool": pool,
        "chosen": False,
        "accepts": False,
        "verdict": UNKNOWN,
        "sentence": error.message,
        **empty,
        "groups": [],
    }


def _refusal(errors: dict[str, TopologyError], *, untried: int) -> TopologyError:
    """The error of a workflow that none of the pools accepts, each fault with the name of its pool."""
    if len(errors) == 1:
        return next(iter(errors.values()))
    sentences = [f'Pool "{name}": {error.message}' for name, error in errors.items()]
    message = f"None of {count_of(len(errors), 'pool')} accepts the workflow. {' '.join(sentences)}"
    if untried:
        message += f" {untried} more, with fewer free GPUs, were not tried; name those to try."
    faults = [
        replace(fault, message=f'Pool "{name}": {fault.message}')
        for name, error in errors.items()
        for fault in error.faults
    ]
    if waits := [error.retry_after for error in errors.values() if isinstance(error, Busy)]:
        return Busy(message, retry_after=min(waits))
    kinds = [kind for kind in _PASSING if any(isinstance(error, kind) for error in errors.values())]
    return kinds[0](message, faults) if kinds else InvalidSpec(message, faults)
