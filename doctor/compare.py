"""Comparing rows with clusters: values in, findings out.

Each rule restates one promise. No rule calls the code that must keep it.
"""

from collections.abc import Iterable, Sequence

from doctor.facts import KINDS, Facts, Finding, Tolerances
from doctor.rules.guards import guard_rules
from doctor.rules.objects import object_rules
from doctor.rules.rows import row_rules
from doctor.rules.shared import shared_rules


def compare(facts: Facts, limits: Tolerances) -> tuple[Finding, ...]:
    """All findings, the gravest kinds first."""
    findings = [
        *row_rules(facts, limits),
        *object_rules(facts, limits),
        *shared_rules(facts),
        *guard_rules(facts),
    ]
    return tuple(sorted(findings, key=_order))


def confirmed(first: Iterable[Finding], second: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings of a second reading, without the unsure ones that the first did not have."""
    before = {finding.key for finding in first}
    return tuple(finding for finding in second if not finding.unsure or finding.key in before)


def counts(findings: Sequence[Finding]) -> dict[str, int]:
    """The number of findings of each kind, zeros included."""
    return {kind: sum(finding.kind == kind for finding in findings) for kind in KINDS}


def _order(finding: Finding) -> tuple[int, str, str, str, str]:
    return KINDS.index(finding.kind), finding.rule, finding.workflow, finding.group, finding.object
