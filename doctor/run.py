"""One audit: look, look again at what may only have been in motion, repair if asked, report."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from doctor.clusters import Gathered, NotLooked, gather
from doctor.compare import compare, confirmed, counts
from doctor.facts import Facts, Finding, Limits
from doctor.repair import Repaired, repair
from doctor.submissions import Accepted, Sent, compare_submissions
from web.times import naive_utc
from workflows.models import Workflow

REPAIRS = {
    "nudge": "enqueue the group, so that a worker reconciles it now",
    "sweep": "let the sweep for orphans delete it, pods first, after its grace",
    "sync": "let the sync of pools remove it",
    "": "nothing, somebody must look",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """``not_looked`` are backends of whose clusters nothing is known; the findings say nothing of them."""

    facts: Facts
    limits: Limits
    findings: tuple[Finding, ...]
    not_looked: tuple[NotLooked, ...]
    repaired: Repaired | None = None
    submissions: dict[str, int] | None = None

    @property
    def exit_code(self) -> int:
        """0 for clean, 1 for findings, 2 for no findings where not everything could be looked at."""
        return 1 if self.findings else 2 if self.not_looked else 0


def audit(
    *,
    limits: Limits,
    backend: str = "",
    history: timedelta,
    confirm: float,
    mend: bool,
    log: Sequence[Sent] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Report:
    """Compare rows and clusters. ``confirm`` is the pause before a second look, in seconds, 0 for none."""
    gathered, findings = _look(backend=backend, history=history, limits=limits)
    if confirm and any(finding.unsure for finding in findings):
        sleep(confirm)
        before = findings
        gathered, findings = _look(backend=backend, history=history, limits=limits)
        findings = confirmed(before, findings)
    return Report(
        facts=gathered.facts,
        limits=limits,
        findings=(*_submitted(log or ()), *findings),
        not_looked=gathered.not_looked,
        repaired=repair(findings) if mend else None,
        submissions=_numbers(log) if log is not None else None,
    )


def _look(*, backend: str, history: timedelta, limits: Limits) -> tuple[Gathered, tuple[Finding, ...]]:
    gathered = gather(backend=backend, history=history)
    return gathered, compare(gathered.facts, limits)


def _submitted(log: Sequence[Sent]) -> tuple[Finding, ...]:
    names, keys = {one.workflow for one in log if one.workflow}, {one.key for one in log if one.key}
    columns = ("name", "submitted_by", "pool_name", "idempotency_key")
    rows = {
        row[0]: row
        for rows in (
            Workflow.objects.filter(name__in=names).order_by(),
            Workflow.objects.filter(idempotency_key__in=keys).order_by(),
        )
        for row in rows.values_list(*columns)
    }
    accepted = [Accepted(name=n, user=u, pool=p, key=k or "") for n, u, p, k in rows.values()]
    return tuple(compare_submissions(log, accepted))


def _numbers(log: Sequence[Sent]) -> dict[str, int]:
    return {
        "sent": len(log),
        "accepted": len({(one.user, one.key or one.workflow) for one in log if one.accepted}),
        "refused": sum(one.refused for one in log),
        "unanswered": sum(not one.accepted and not one.refused for one in log),
    }


def as_json(report: Report) -> dict[str, Any]:
    """The report as ``--json`` prints it."""
    facts = report.facts
    return {
        "at": naive_utc(facts.now, precision="microseconds"),
        "exit_code": report.exit_code,
        "counts": counts(report.findings),
        "findings": [_finding(one) for one in report.findings],
        "looked": [
            {"cluster": one.cluster, "backend": one.backend, "objects": len(one.things)} for one in facts.seen
        ],
        "not_looked": [asdict(one) for one in report.not_looked],
        "groups": len(facts.groups),
        "unreleased": sum(one.released_at is None for one in facts.groups.values()),
        "workflows": len(facts.workflows),
        "limits": {name: value.total_seconds() for name, value in asdict(report.limits).items()},
        "repaired": asdict(report.repaired) if report.repaired else None,
        "submissions": report.submissions,
    }


def _finding(one: Finding) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "rule": one.rule,
        "message": one.message,
        "since": naive_utc(one.since, precision="microseconds"),
        "backend": one.backend,
        "workflow": one.workflow,
        "group": one.group,
        "object": one.object,
        "repair": REPAIRS[one.repair],
    }


def as_text(report: Report) -> str:
    """The report for people."""
    lines = [_line(one) for one in report.findings]
    lines += [f'not looked at: backend "{one.backend}": {one.reason}' for one in report.not_looked]
    if report.repaired:
        done = report.repaired
        lines.append(
            f"repair: groups enqueued: {done.nudged}, deletes sent: {done.deleted}, "
            f"clusters synced: {done.synced}"
        )
        lines += [f"repair failed: {why}" for why in done.failed]
    numbers = ", ".join(f"{number} {kind}" for kind, number in counts(report.findings).items() if number)
    facts = report.facts
    objects = sum(len(one.things) for one in facts.seen)
    lines.append(
        f"groups: {len(facts.groups)}, objects: {objects}, clusters: {len(facts.seen)}; "
        f"found: {numbers or 'nothing'}"
    )
    return "\n".join(lines)


def _line(one: Finding) -> str:
    where = f"{one.workflow} {one.group}".strip() + ": " if one.workflow else ""
    since = f"since {one.since:%Y-%m-%d %H:%M:%S}; " if one.since else ""
    return f"{one.kind:<12} {where}{one.message} ({since}--repair: {REPAIRS[one.repair]})"
