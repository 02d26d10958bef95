"""The result of a run as a table, for people."""

from collections.abc import Iterator

from chaos.run import Outcome

WIDTH = 44


def lines(outcome: Outcome) -> Iterator[str]:
    options = outcome.options
    yield f"seed {options.seed}, {outcome.submitted} workflows with {sum(outcome.ended.values())} task groups"
    for title, counts in outcome.counts.items():
        yield f"{title}"
        for name, count in sorted(counts.items()):
            yield f"  {name:<{WIDTH}}{count:>6}"
    yield "task groups ended as"
    for status, count in outcome.ended.items():
        yield f"  {status:<{WIDTH}}{count:>6}"
    yield "times in seconds"
    yield f"  {'storm':<{WIDTH}}{outcome.storm_seconds:>6.0f}"
    seconds = "never" if outcome.rest is None else f"{outcome.rest:.0f}"
    yield f"  {'from healed to rest':<{WIDTH}}{seconds:>6}"
    if outcome.release is not None:
        yield f"  {'from an end to Released, median':<{WIDTH}}{outcome.release[0]:>6.1f}"
        yield f"  {'from an end to Released, most':<{WIDTH}}{outcome.release[1]:>6.1f}"
    yield "the check"
    for name, count in outcome.findings.counts().items():
        yield f"  {name:<{WIDTH}}{count:>6}"
    yield from (f"  ! {line}" for line in outcome.findings.lines())
    yield from (f"  ! never happened: {fault}" for fault in outcome.missed)
    yield "PASSED" if outcome.good else "FAILED"
