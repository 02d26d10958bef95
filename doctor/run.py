"""One consistency check: read, compare, confirm by a second reading, repair on request, report."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from doctor.clusters import cluster_uids, list_clusters
from doctor.compare import compare, confirmed
from doctor.facts import Facts, Finding, Tolerances
from doctor.refusals import refusals
from doctor.repair import Repaired, repair
from doctor.rows import read_rows
from pools.models import Installation
from pools.selectors import freshness_by_cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The findings on all clusters that could be read; ``facts.unread`` are the others."""

    facts: Facts
    limits: Tolerances
    findings: tuple[Finding, ...]
    repaired: Repaired | None = None

    @property
    def exit_code(self) -> int:
        """0 for clean, 1 for findings, 2 for no findings where not every cluster could be read."""
        return 1 if self.findings else 2 if self.facts.unread else 0


def check(
    *,
    limits: Tolerances,
    backend: str = "",
    history: timedelta,
    confirm: float,
    repairs: bool,
    sleep: Callable[[float], None] = time.sleep,
) -> Report:
    """Compare rows and clusters. ``confirm`` is the pause before a second reading, in seconds, 0 for none."""
    facts = read_facts(backend=backend, history=history)
    findings = compare(facts, limits)
    if confirm and any(finding.unsure for finding in findings):
        sleep(confirm)
        facts = read_facts(backend=backend, history=history)
        findings = confirmed(findings, compare(facts, limits))
    return Report(
        facts=facts,
        limits=limits,
        findings=findings,
        repaired=repair(findings) if repairs else None,
    )


def read_facts(*, backend: str = "", history: timedelta) -> Facts:
    """Read every cluster, then the rows that are unfinished or ended within ``history``.

    A ``backend`` limits the reading to its cluster and to the groups in that cluster.
    """
    installation = Installation.objects.values_list("uuid", flat=True).first() or UUID(int=0)
    clusters, unread = list_clusters(backend, installation=installation)
    objects = [obj for cluster in clusters for obj in cluster.objects]
    rows = read_rows(
        installation=installation,
        clusters=[cluster.uid for cluster in clusters] + cluster_uids(backend) if backend else None,
        mentioned={obj.group for obj in objects if obj.group},
        claimants={obj.pod for obj in objects if obj.pod},
        history=history,
    )
    return Facts(
        now=rows.now,
        installation=installation,
        groups=rows.groups,
        workflows=rows.workflows,
        pools=rows.pools,
        clusters=tuple(clusters),
        unread=tuple(unread),
        freshness=freshness_by_cluster({cluster.uid for cluster in clusters}),
        owners=rows.owners,
        backwards=rows.backwards,
        refusals=tuple(refusals(backend)),
        workers=rows.workers,
    )
