"""The report of a check: as JSON for programs, as text for people."""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from doctor.compare import counts
from doctor.facts import Finding, UnreadCluster
from doctor.repair import Repaired
from doctor.run import Report
from doctor.turns import waiting
from pools.values.freshness import NEVER_OBSERVED, Age
from scheduling.sentences import agree, count_of, one_line
from web.times import naive_utc

REPAIRS = {
    "enqueue": "enqueue the group, so that a worker reconciles it now",
    "sweep": "let the sweep for orphans delete it, pods first, after its grace",
    "sync": "let the sync of pools remove it",
    "": "nothing, a person must decide",
}


def as_json(report: Report) -> dict[str, Any]:
    """The report as ``--json`` prints it."""
    facts = report.facts
    return {
        "at": _written(facts.now),
        "exit_code": report.exit_code,
        "counts": counts(report.findings),
        "findings": [_finding(finding) for finding in report.findings],
        "looked": [
            {
                "cluster": cluster.uid,
                "backend": cluster.backend,
                "objects": len(cluster.objects),
                "freshness": facts.freshness.get(cluster.uid, NEVER_OBSERVED).age.value,
                "observed": facts.freshness.get(cluster.uid, NEVER_OBSERVED).sentence,
            }
            for cluster in facts.clusters
        ],
        "not_looked": [asdict(cluster) for cluster in facts.unread],
        "groups": len(facts.groups),
        "unreleased": sum(group.released_at is None for group in facts.groups.values()),
        "workflows": len(facts.workflows),
        "waiting": len(waiting(facts, report.limits)),
        "limits": {name: value.total_seconds() for name, value in asdict(report.limits).items()},
        "repaired": _repaired(report.repaired) if report.repaired else None,
    }


def _written(instant: datetime | None) -> str | None:
    """A moment as RFC 3339 has it: OSMO's client never reads a report."""
    return f"{naive_utc(instant, precision='microseconds')}Z" if instant else None


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "rule": finding.rule,
        "message": finding.message,
        "since": _written(finding.since),
        "backend": finding.backend,
        "workflow": finding.workflow,
        "group": finding.group,
        "object": finding.object,
        "repair": REPAIRS[finding.repair],
    }


def _repaired(repaired: Repaired) -> dict[str, Any]:
    return {
        "enqueued": repaired.enqueued,
        "deleted": repaired.deleted,
        "synced": repaired.synced,
        "failed": repaired.failures,
    }


def as_text(report: Report) -> str:
    """The report for people."""
    facts = report.facts
    lines = [_line(finding) for finding in report.findings]
    lines += [_unread_line(cluster) for cluster in facts.unread]
    for cluster in facts.clusters:
        observed = facts.freshness.get(cluster.uid, NEVER_OBSERVED)
        if observed.age is not Age.FRESH:
            lines.append(f'not fresh: backend "{cluster.backend}": {observed.sentence}')
    if report.repaired:
        repaired = report.repaired
        lines.append(
            f"repair: groups enqueued: {repaired.enqueued}, deletes sent: {repaired.deleted}, "
            f"clusters synced: {repaired.synced}"
        )
        lines += [one_line(f"repair failed: {failure}") for failure in repaired.failures]
    if since := waiting(facts, report.limits):
        verb, longest = agree(len(since), "waits", "wait"), (facts.now - min(since)).total_seconds()
        lines.append(f"{count_of(len(since), 'group')} {verb} for workers, for at most {longest:.0f} s")
    numbers = ", ".join(f"{number} {kind}" for kind, number in counts(report.findings).items() if number)
    objects = sum(len(cluster.objects) for cluster in facts.clusters)
    lines.append(
        f"groups: {len(facts.groups)}, objects: {objects}, clusters: {len(facts.clusters)}; "
        f"findings: {numbers or 'none'}"
    )
    return "\n".join(lines)


def _unread_line(cluster: UnreadCluster) -> str:
    return one_line(f'not checked: backend "{cluster.backend}": {cluster.reason}')


def _line(finding: Finding) -> str:
    subject = f"{finding.workflow} {finding.group}".strip() + ": " if finding.workflow else ""
    since = f"since {finding.since:%Y-%m-%d %H:%M:%S}; " if finding.since else ""
    message = one_line(finding.message)
    return f"{finding.kind:<12} {subject}{message} ({since}--repair: {REPAIRS[finding.repair]})"
