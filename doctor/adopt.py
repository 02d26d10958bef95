"""Taking over a cluster in which another state of this installation's database has written.

The actions of a database after it took over follow from comparing its rows with the cluster: objects that no
row wants are deleted, unfinished groups without objects are created or end as failed, and the others go on.
The consistency check finds the same, so a preview is its report with no tolerance.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from cluster.errors import ClusterError
from doctor.facts import Finding, Tolerances
from doctor.refusals import former_namespaces, unfinished_namespaces
from doctor.rules.guards import WRITES_SUSPENDED
from doctor.run import check
from pools.clusters.connect import guard_for
from pools.clusters.guard import Guard
from pools.interfaces import usage
from pools.models import Backend
from workflows.services.adoption import expect_other_forms

HISTORY = timedelta(hours=24)
DUE = timedelta(minutes=1)
READ_SECONDS = 20.0
SECONDS = 120.0  # for all calls about one mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A namespace in which this database may not write, and what would follow if it took over.

    It is the backend's, or a former one of its cluster, where groups from before a move may still be.

    ``problem``: why that could not be found out; empty otherwise.
    """

    backend: Backend
    namespace: str
    reason: str = ""
    message: str = ""
    problem: str = ""
    deletions: tuple[Finding, ...] = ()
    differences: tuple[Finding, ...] = ()
    unread: tuple[str, ...] = ()


def candidates(backend: str = "") -> Iterator[Candidate]:
    """The backends (or the one of this name) that are refused, and those that cannot be asked.

    A mark in a former namespace is read if it was refused, or if groups are there: nobody may have read it
    since this database was put back.
    """
    living = Backend.objects.filter(cleaned_at=None)
    present = set(living.values_list("cluster_id", "namespace"))
    rows = living.order_by("deleted_at", "pk")
    former: set[tuple[str | None, str]] = set()
    for row in rows.filter(name=backend) if backend else rows:
        yield from _candidates(row, row.namespace)
        for namespace in sorted({*former_namespaces(row), *unfinished_namespaces(row)}):
            place = row.cluster_id, namespace
            if place not in former | present:
                former.add(place)
                yield from _candidates(row, namespace)


def _candidates(backend: Backend, namespace: str) -> Iterator[Candidate]:
    try:
        right = _guard(backend).examine(namespace)
    except ClusterError as error:
        yield Candidate(backend=backend, namespace=namespace, problem=str(error))
        return
    if not right.allowed:
        yield _candidate(backend, namespace, reason=right.reason, message=right.message)


def _candidate(backend: Backend, namespace: str, *, reason: str, message: str) -> Candidate:
    limits = Tolerances.all(timedelta(0), due_at_least=DUE)
    report = check(limits=limits, backend=backend.name, history=HISTORY, confirm=0.0, repairs=False)
    findings = [finding for finding in report.findings if finding.rule != WRITES_SUSPENDED]
    return Candidate(
        backend=backend,
        namespace=namespace,
        reason=reason,
        message=message,
        deletions=tuple(finding for finding in findings if finding.repair in ("sweep", "sync")),
        differences=tuple(finding for finding in findings if finding.repair not in ("sweep", "sync")),
        unread=tuple(f"{unread.backend}: {unread.reason}" for unread in report.facts.unread),
    )


def adopt(candidate: Candidate) -> int:
    """Take over, and enqueue the groups that waited for it; returns the new epoch. Raises ClusterError."""
    backend = candidate.backend
    if backend.cluster_id is not None:
        expect_other_forms(backend.cluster_id, candidate.namespace)
    epoch = _guard(backend).adopt(candidate.namespace).epoch
    for pk in Backend.objects.filter(cluster_id=backend.cluster_id).values_list("pk", flat=True):
        usage().notify_backend(pk)
    return epoch


def _guard(backend: Backend) -> Guard:
    return guard_for(backend, read_seconds=READ_SECONDS, seconds=SECONDS)
