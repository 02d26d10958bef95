"""Rules about the right of this database to write in its clusters."""

from collections.abc import Iterator

from doctor.facts import Facts, Finding

WRITES_SUSPENDED = "writes-suspended"


def guard_rules(facts: Facts) -> Iterator[Finding]:
    for refusal in facts.refusals:
        yield Finding(
            kind="stuck",
            rule=WRITES_SUSPENDED,
            message=refusal.message,
            backend=refusal.backend,
            cluster=refusal.cluster,
        )
