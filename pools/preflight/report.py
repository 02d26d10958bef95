"""A preflight as a whole: run it, and show it as JSON or as text."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError

from cluster.clock import boot_seconds
from pools.clusters.probe import PROBE_SECONDS
from pools.models import Backend
from pools.preflight.checks import check_cluster, check_installation
from pools.preflight.cluster import read_cluster
from pools.preflight.servers import read_installation
from scheduling.preflight import CheckResult, CheckStatus, unknown
from scheduling.sentences import one_line


@dataclass(frozen=True, slots=True)
class PreflightReport:
    """The results about the installation, and about each backend by its name."""

    installation: tuple[CheckResult, ...]
    backends: tuple[tuple[str, tuple[CheckResult, ...]], ...]

    def results(self) -> Iterator[CheckResult]:
        yield from self.installation
        for _, results in self.backends:
            yield from results

    @property
    def status(self) -> CheckStatus:
        """``failed`` if any check failed, else ``unknown`` if any is, else ``passed``."""
        statuses = {result.status for result in self.results()}
        return next(s for s in (CheckStatus.FAILED, CheckStatus.UNKNOWN, CheckStatus.PASSED) if s in statuses)

    @property
    def exit_code(self) -> int:
        return int(self.status == CheckStatus.FAILED)


def preflight(backends: Iterable[Backend], *, seconds: float) -> PreflightReport:
    """Check the installation, and these backends one after the other; ``seconds`` bounds all of them."""
    until = boot_seconds() + seconds
    installation = check_installation(read_installation())
    clusters = []
    try:
        for backend in backends:
            left = max(0.0, min(PROBE_SECONDS, until - boot_seconds()))
            clusters.append((backend.name, tuple(check_cluster(read_cluster(backend, seconds=left)))))
        if not clusters:
            message = "No backend is registered, so no cluster was checked."
            installation.append(
                unknown("backends", message, "Register a backend, and run the preflight again.")
            )
    except DatabaseError:
        message = "The backends could not be read from the database."
        installation.append(unknown("backends", message, "Make the database ready first."))
    return PreflightReport(tuple(installation), tuple(clusters))


def as_json(report: PreflightReport) -> dict[str, Any]:
    counts = Counter(result.status for result in report.results())
    return {
        "status": str(report.status),
        "counts": {str(status): counts[status] for status in CheckStatus},
        "installation": [_entry(result) for result in report.installation],
        "backends": [
            {"backend": name, "checks": [_entry(result) for result in results]}
            for name, results in report.backends
        ],
    }


def _entry(result: CheckResult) -> dict[str, str]:
    return {
        "check": result.check,
        "status": str(result.status),
        "message": result.message,
        "to_do": result.to_do,
    }


def as_text(report: PreflightReport) -> Iterator[str]:
    """Lines: the checks of each part, and below each what to do."""
    yield "Installation"
    yield from _lines(report.installation)
    for name, results in report.backends:
        yield f"Backend {name}"
        yield from _lines(results)
    counts = Counter(result.status for result in report.results())
    yield ", ".join(f"{counts[status]} {status}" for status in CheckStatus)


def _lines(results: Iterable[CheckResult]) -> Iterator[str]:
    for result in results:
        yield f"  {result.status:<8} {result.check}: {one_line(result.message)}"
        if result.to_do:
            yield f"           {one_line(result.to_do)}"
