"""The end: wait for rest, then compare the database, the cluster and the log of what was submitted.

It asks the database with SQL and the API server directly, and knows nothing of the service's own code.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, LiteralString

import psycopg

from chaos import attempts, statuslog, submissions
from chaos.cluster_faults import DOMAINS, GROUP_LABEL, OWN, POD_GROUPS, STRANGER
from chaos.hostile import EXIT_CODE, MARK
from chaos.monitor import Monitor
from chaos.site import Progress, Site
from chaos.submissions import SubmittedWorkflow
from chaos.workload import Submission
from localcluster import scenario
from localcluster.api import ApiError, Json
from localcluster.directories import CHECKOUT
from localcluster.kueue_queues import KUEUE
from localcluster.stack import ADMIN
from localcluster.supervisor import clean_environment

KINDS = {
    "Pod": "/api/v1/{}pods",
    "Service": "/api/v1/{}services",
    "Secret": "/api/v1/{}secrets",
    "PodGroup of KAI": POD_GROUPS + "/{}podgroups",
    "Workload": KUEUE + "/{}workloads",
    "PodGroup": "/apis/scheduling.k8s.io/v1beta1/{}podgroups",
    "CompositePodGroup": "/apis/scheduling.k8s.io/v1alpha3/{}compositepodgroups",
    "Workload of Kubernetes": "/apis/scheduling.k8s.io/v1beta1/{}workloads",
    "ComputeDomain": DOMAINS + "/{}computedomains",
}
CLAIMS = {
    "ResourceClaim": "/apis/resource.k8s.io/v1/{}resourceclaims",
    "ResourceClaimTemplate": "/apis/resource.k8s.io/v1/{}resourceclaimtemplates",
}
MOST_LINES = 10
LINE_CHARACTERS = 500
PROGRESS_SECONDS = 15.0
POLL_SECONDS = 0.5
ROWS_SECONDS = 120.0
WORKFLOWS = "SELECT name, idempotency_key, submitted_by, pool_name FROM workflows_workflow"
POD_ROWS = "SELECT namespace, name, uid, phase FROM workflows_observedpod WHERE NOT absent"
DOCTOR_SECONDS = 200


@dataclass(slots=True)
class Findings:
    """Each list names what is wrong; all of them must be empty.

    ``overlapping`` are groups of which two attempts had pods at once. ``unsafe`` are ComputeDomains that end
    under pods. ``unadmitted`` are pods that Kueue had given no room. ``stuck`` are rows by which something
    lives that is gone. ``strangers`` are rows with a trace of somebody else's pod or event. ``unwritten`` are
    pods that the observer did not write beside poison. ``unguarded`` is what was written from a database that
    was put back. ``doctor`` is what ``manage.py doctor`` found.
    """

    lost: list[str] = field(default_factory=list)
    leaked: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    overlapping: list[str] = field(default_factory=list)
    half_made: list[str] = field(default_factory=list)
    backwards: list[str] = field(default_factory=list)
    unsafe: list[str] = field(default_factory=list)
    unadmitted: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    unwritten: list[str] = field(default_factory=list)
    unguarded: list[str] = field(default_factory=list)
    doctor: list[str] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        return {counter.name.replace("_", "-"): len(getattr(self, counter.name)) for counter in fields(self)}

    def lines(self) -> Iterator[str]:
        for name in self.counts():
            findings: list[str] = getattr(self, name.replace("-", "_"))
            yield from (f"{name}: {finding}" for finding in findings[:MOST_LINES])
            if len(findings) > MOST_LINES:
                yield f"{name}: and {len(findings) - MOST_LINES} more"


def unreleased(site: Site) -> list[str]:
    """Groups that are not released yet, with how they stand."""
    rows = _rows(
        site,
        "SELECT g.uuid, g.status, g.failures, g.waiting_reason, g.next_reconcile_at - clock_timestamp(), "
        "w.pool_name, g.conditions FROM workflows_taskgroup g JOIN workflows_workflow w "
        "ON w.uuid = g.workflow_id WHERE g.released_at IS NULL ORDER BY g.submit_time",
    )
    return [" | ".join(str(value) for value in row) for row in rows]


def left_in_cluster(site: Site) -> list[str]:
    """Objects of groups in the cluster, and claims in the namespaces of groups."""
    objects = []
    for kind, path in KINDS.items():
        objects += [f"{kind} {name}" for name in _names(site, path.format(""), OWN)]
    for backend in scenario.BACKENDS:
        for kind, path in CLAIMS.items():
            namespace = f"namespaces/{scenario.namespace(backend)}/"
            objects += [f"{kind} {name}" for name in _names(site, path.format(namespace), "")]
    return objects


def wait_for_rest(
    site: Site, *, seconds: float, progress: Progress, wake_driver: Callable[[], None]
) -> float | None:
    """Wait until nothing is unreleased and nothing is left; how long it took, None if it did not.

    NVIDIA's controller looks for templates of ComputeDomains that went without it (their definition was
    removed) every ten minutes and whenever a ComputeDomain is made; ``wake_driver`` has one made.
    """
    began = reported = woken = time.monotonic()
    while (now := time.monotonic()) - began < seconds:
        rows = unreleased(site)
        objects = [] if rows else left_in_cluster(site)
        if not rows and not objects:
            return now - began
        if objects and now - woken > PROGRESS_SECONDS and all("ClaimTemplate" in name for name in objects):
            woken = now
            wake_driver()
        if now - reported > PROGRESS_SECONDS:
            reported = now
            left = f"{len(rows)} task groups" if rows else f"{len(objects)} objects"
            progress(f"{left} are left, the oldest: {(rows + objects)[0][:LINE_CHARACTERS]}")
        site.supervisor.check()
        time.sleep(POLL_SECONDS)
    return None


def check(
    site: Site,
    work: list[Submission],
    *,
    monitor: Monitor,
    unguarded: Iterable[str],
    excused: Callable[[float], bool],
) -> Findings:
    """Compare all three. Work accepted at an ``excused`` time may have gone with a restored database."""
    findings = Findings(
        unsafe=list(monitor.violations()),
        unadmitted=list(monitor.unadmitted()),
        unguarded=list(unguarded),
    )
    pods = list(monitor.pods.values())
    findings.overlapping += attempts.overlapping(pods, attempts.of_pods(site.database_url))
    findings.doubled += attempts.doubled(pods)
    rows = [
        SubmittedWorkflow(name=name, key=key, user=user, pool=pool)
        for name, key, user, pool in _rows(site, WORKFLOWS)
    ]
    existing_keys = {row.key for row in rows}
    work = [item for item in work if item.key in existing_keys or not excused(item.answered_at)]
    findings.lost += submissions.lost(work, rows, user=ADMIN)
    findings.doubled += submissions.doubled(work, rows)
    findings.doctor += _doctor(site)
    findings.half_made += _half_made(site)
    findings.strangers += _strangers(site)
    _compare_rows(site, findings)
    findings.leaked += [*left_in_cluster(site), *(f"not released: {line}" for line in unreleased(site))]
    moves = statuslog.moves(site.database_url)
    findings.backwards += [str(move) for move in statuslog.backwards(moves)]
    return findings


def _half_made(site: Site) -> Iterator[str]:
    """Workflows without groups, groups without tasks, and groups that ended with tasks that live."""
    questions: dict[str, LiteralString] = {
        "workflow without task groups": (
            "SELECT w.name FROM workflows_workflow w WHERE NOT EXISTS "
            "(SELECT 1 FROM workflows_taskgroup g WHERE g.workflow_id = w.uuid)"
        ),
        "task group without tasks": (
            "SELECT g.uuid FROM workflows_taskgroup g WHERE NOT EXISTS "
            "(SELECT 1 FROM workflows_task t WHERE t.group_id = g.uuid)"
        ),
        "task that lives in a task group that ended": (
            "SELECT t.pod_name FROM workflows_task t JOIN workflows_taskgroup g ON g.uuid = t.group_id "
            "WHERE t.status = ANY(%(live)s) AND NOT g.status = ANY(%(live)s)"
        ),
        "workflow that lives although its task groups ended": (
            "SELECT w.name FROM workflows_workflow w WHERE w.status IN ('PENDING', 'RUNNING', 'WAITING') "
            "AND NOT EXISTS (SELECT 1 FROM workflows_taskgroup g WHERE g.workflow_id = w.uuid "
            "AND g.status = ANY(%(live)s))"
        ),
    }
    for fault, question in questions.items():
        for row in _rows(site, question):
            yield f"{fault}: {row[0]}"


def _compare_rows(site: Site, findings: Findings) -> None:
    """Compare the rows of pods with the cluster; the observer gets some time to write the last changes."""
    until = time.monotonic() + ROWS_SECONDS
    while (rows := set(_rows(site, POD_ROWS))) != (pods := set(_pods(site))) and time.monotonic() < until:
        time.sleep(POLL_SECONDS)
    findings.stuck += [f"a row has what the cluster has not: {' '.join(row)}" for row in rows - pods]
    findings.unwritten += [f"no row has {' '.join(pod)}" for pod in pods - rows]
    for uid, quarantine in _rows(site, "SELECT uid, quarantine FROM pools_cluster WHERE quarantine <> '{}'"):
        findings.unwritten.append(f"cluster {uid}: {json.dumps(quarantine)[:LINE_CHARACTERS]}")
    living = "SELECT pod_name, status FROM workflows_task WHERE status = ANY(%(live)s)"
    names = {name for _, name, _, _ in pods}
    findings.stuck += [
        f"task of {name} is {status}" for name, status in _rows(site, living) if name not in names
    ]


def _pods(site: Site) -> Iterator[tuple[str, str, str, str]]:
    """Namespace, name, uid and phase of pods in followed namespaces, those of strangers too."""
    for backend in scenario.BACKENDS:
        path = f"/api/v1/namespaces/{scenario.namespace(backend)}/pods"
        for pod in site.api.list(path, query={"labelSelector": GROUP_LABEL})[0]:
            metadata = pod["metadata"]
            yield metadata["namespace"], metadata["name"], metadata["uid"], pod["status"]["phase"]


def _strangers(site: Site) -> Iterator[str]:
    """Traces of strangers in rows of tasks, task groups and timelines."""
    questions: dict[str, LiteralString] = {
        "task": "SELECT pod_name FROM workflows_task "
        "WHERE exit_code = %(exit_code)s OR strpos(failure_message, %(mark)s) > 0",
        "task group": "SELECT uuid FROM workflows_taskgroup WHERE strpos(failure_message, %(mark)s) > 0 "
        "OR strpos(waiting_reason::text, %(mark)s) > 0",
        "event": "SELECT id FROM workflows_event WHERE strpos(message, %(mark)s) > 0",
    }
    for kind, question in questions.items():
        for row in _rows(site, question):
            yield f"{kind} {row[0]}"


def _doctor(site: Site) -> list[str]:
    """The findings of the service's own check, with no tolerance, except that strangers are there."""
    pods = site.api.list("/api/v1/pods", query={"labelSelector": STRANGER})[0]
    strangers = {f"Pod {pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods}
    settings = site.running.settings
    ended = subprocess.run(
        [sys.executable, "manage.py", "doctor", "--json", "--grace", "0"],
        cwd=CHECKOUT,
        env=clean_environment() | settings.environment(),
        capture_output=True,
        text=True,
        timeout=DOCTOR_SECONDS,
        check=False,
    )
    if ended.returncode not in (0, 1):
        return [f"it could not check: {ended.stderr[-LINE_CHARACTERS:]}{ended.stdout[-LINE_CHARACTERS:]}"]
    report = json.loads(ended.stdout)
    return [
        f"{finding['kind']} {finding['rule']}: {finding['workflow']} {finding['message']}"
        for finding in report["findings"]
        if finding["kind"] != "leaked" or finding["object"] not in strangers
    ]


def release_times(site: Site) -> tuple[float, float] | None:
    """Seconds from the end of a task group to its release: the median and the most."""
    rows = _rows(
        site,
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds), max(seconds) FROM (SELECT "
        "extract(epoch FROM released_at - end_time) AS seconds FROM workflows_taskgroup "
        "WHERE released_at IS NOT NULL AND end_time IS NOT NULL) AS ended",
    )
    return None if rows[0][0] is None else (float(rows[0][0]), float(rows[0][1]))


def statuses(site: Site) -> dict[str, int]:
    """How the task groups ended."""
    rows = _rows(site, "SELECT status, count(*) FROM workflows_taskgroup GROUP BY status ORDER BY status")
    return {str(status): int(count) for status, count in rows}


def odd_ends(site: Site) -> list[str]:
    """How groups ended for which neither their tasks nor their user are the reason."""
    rows = _rows(
        site,
        "SELECT g.status, w.pool_name, coalesce(nullif(g.failure_message, ''), min(t.failure_message)) "
        "FROM workflows_taskgroup g JOIN workflows_workflow w ON w.uuid = g.workflow_id "
        "LEFT JOIN workflows_task t ON t.group_id = g.uuid "
        "WHERE g.status NOT IN ('COMPLETED', 'FAILED', 'FAILED_CANCELED', 'FAILED_UPSTREAM') "
        "GROUP BY g.uuid, w.pool_name",
    )
    return [" | ".join(str(value) for value in row) for row in rows]


def _names(site: Site, path: str, selector: str) -> list[str]:
    try:
        objects, _ = site.api.list(path, query={"labelSelector": selector} if selector else {})
    except ApiError as error:
        if error.code == 404:
            return []
        raise
    return [_described(obj) for obj in objects]


def _described(obj: Json) -> str:
    """Its name; of a pod also how it stands, without which a leaked one explains nothing."""
    name, phase = str(obj["metadata"]["name"]), (obj.get("status") or {}).get("phase")
    if not phase:
        return name
    deleting = ", being deleted" if "deletionTimestamp" in obj["metadata"] else ""
    return f"{name} ({phase} on {obj['spec'].get('nodeName') or 'no node'}{deleting})"


def _rows(site: Site, question: LiteralString) -> list[Any]:
    with psycopg.connect(site.database_url) as connection:
        values = {"live": list(statuslog.LIVE), "exit_code": EXIT_CODE, "mark": MARK}
        return connection.execute(question, values).fetchall()
