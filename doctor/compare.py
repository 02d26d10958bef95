"""Holding rows and clusters against each other: values in, findings out.

Each rule restates one promise in its own words. None asks the code that is to keep it.
"""

from collections.abc import Iterable, Sequence

from doctor.facts import KINDS, Facts, Finding, Limits
from doctor.rules.objects import object_rules
from doctor.rules.rows import row_rules
from doctor.rules.shared import shared_rules


def compare(facts: Facts, limits: Limits) -> tuple[Finding, ...]:
    """Everything that is not as promised, the gravest kinds first."""
    found = [*row_rules(facts, limits), *object_rules(facts, limits), *shared_rules(facts)]
    return tuple(sorted(found, key=_order))


def confirmed(first: Iterable[Finding], second: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings of a second look, without the unsure ones that the first did not have."""
    before = {finding.key for finding in first}
    return tuple(finding for finding in second if not finding.unsure or finding.key in before)


def counts(findings: Sequence[Finding]) -> dict[str, int]:
    """How many there are of each kind, those with none included."""
    return {kind: sum(finding.kind == kind for finding in findings) for kind in KINDS}


def _order(finding: Finding) -> tuple[int, str, str, str, str]:
    return KINDS.index(finding.kind), finding.rule, finding.workflow, finding.group, finding.object
