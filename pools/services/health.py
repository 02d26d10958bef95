"""Findings of ``/readyz``: beat and its sweep, the observers, the declared file.

None is needed to serve requests. Each leaves a time in the database, on the database's clock, so any process
can judge them without talking to them.
"""

from django.db import DatabaseError, connection
from django.db.models import Q

from pools.models import Backend
from pools.services import declared
from pools.services.recording import declared_file
from pools.values.freshness import OBSERVER_SILENCE
from web.operation.health import OK, SILENT, DependencyStatus, register
from web.operation.periodic import SWEEP_SECONDS

LATE_SWEEPS = 15
"""Missed sweeps before they are reported: a busy queue delays some."""

_SWEEP = "SELECT extract(epoch FROM clock_timestamp() - ran_at) FROM pools_sweeprun"
_OBSERVERS = """
    SELECT b.name, extract(epoch FROM clock_timestamp() - c.heartbeat_at),
           CASE WHEN l.until > clock_timestamp() THEN l.observer END
      FROM pools_backend b
      LEFT JOIN pools_cluster c ON c.uid = b.cluster_id
      LEFT JOIN pools_clusterlease l ON l.cluster_id = b.cluster_id
     WHERE b.deleted_at IS NULL ORDER BY b.name
"""


def sweep() -> list[DependencyStatus]:
    """When beat's sweep last ran: a recent run proves that beat, Redis and a worker are alive."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(_SWEEP)
            row = cursor.fetchone()
    except DatabaseError:
        return [DependencyStatus(name="sweep", line=SILENT)]
    if row is None or row[0] is None:
        return [DependencyStatus(name="sweep", line="never ran; are beat and a worker running?")]
    late = row[0] > LATE_SWEEPS * SWEEP_SECONDS
    line = f"ran {row[0]:.0f} s ago" + ("; are beat and a worker running?" if late else "")
    return [DependencyStatus(name="sweep", line=line if late else f"{OK}, {line}")]


def observers() -> list[DependencyStatus]:
    """When an observer last heard from each living backend's cluster, and which one follows it now."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(_OBSERVERS)
            rows = cursor.fetchall()
    except DatabaseError:
        return [DependencyStatus(name="observers", line=SILENT)]
    return [
        DependencyStatus(name="observer", line=_line(age), backend=name, detail=_holder(holder))
        for name, age, holder in rows
    ]


def _line(age: float | None) -> str:
    if age is None:
        return "has not heard from its cluster yet"
    text = f"heard {age:.0f} s ago"
    return (
        f"{OK}, {text}"
        if age < OBSERVER_SILENCE.total_seconds()
        else f"{text}; is it running, does the cluster answer?"
    )


def _holder(name: str | None) -> str:
    return f"; followed by {name}" if name else "; no observer follows it now"


def configuration() -> list[DependencyStatus]:
    """Whether the declared file was accepted; no finding where there is no file."""
    if not declared_file():
        return []
    try:
        condition = declared.condition()
    except DatabaseError:
        return [DependencyStatus(name="configuration", line=SILENT)]
    return [DependencyStatus(name="configuration", line=_file_line(condition))]


def guards() -> list[DependencyStatus]:
    """The backends in whose clusters nothing is written; no finding while there is none."""
    refused, unknown = (
        Q(conditions__contains=[{"type": "WritesAllowed", "status": status}])
        for status in ("False", "Unknown")
    )
    rows = Backend.objects.filter(refused | unknown, deleted_at=None).order_by("name")
    try:
        names = list(rows.values_list("name", flat=True))
    except DatabaseError:
        return [DependencyStatus(name="guards", line=SILENT)]
    line = "nothing is written in its cluster; its condition WritesAllowed says why"
    return [DependencyStatus(name="guard", line=line, backend=name) for name in names]


def _file_line(condition: dict[str, str] | None) -> str:
    if condition is None:
        return "its file was not applied yet; are beat and a worker running?"
    since = f"since {condition['lastTransitionTime']}"
    if condition["status"] == "True":
        return f"{OK}, as its file says {since}"
    return f"its file is not accepted ({condition['reason']}) {since}; the last good one is in force"


def register_findings() -> None:
    register("sweep", sweep, needed=False)
    register("observers", observers, needed=False)
    register("configuration", configuration, needed=False)
    register("guards", guards, needed=False)
