"""The upkeep of kept logs: finding those nobody has read, and keeping the store within its bounds.

The store is bounded by age and by the sum of its objects; between two sweeps it may hold more by what was
added meanwhile. Beyond the sum, those submitters whose logs take the most lose their oldest, down to one
level for all of them, so nobody's logs are removed for the sake of somebody who keeps more. Only objects that
a row names are removed, object first and row after, so a crash leaves a row whose object is gone, and the
next sweep ends that.
"""

import time
from collections.abc import Iterable
from datetime import timedelta

import structlog
from django.conf import settings
from django.db import connection
from django.db.models import Case, Q, Sum, Value, When
from django.db.models.functions import Now

from workflows.logs.errors import StoreFailed
from workflows.logs.store import installed_store
from workflows.metrics import LOGS
from workflows.models import KeptLog, Task

BATCH = 200
CLAIM_SECONDS = 60.0
UNFINISHED = timedelta(hours=1)
REMOVED_AT_ONCE = 500
SWEEP_SECONDS = 20.0
SETTLED_AT_ONCE = 5000
SUBMITTER = "task__group__workflow__submitted_by"
NEVER = "it never had a pod"
POD_DELETED = "its pod was gone before its log was read"
TOO_OLD = "it is older than logs are kept"
NO_ROOM = "the store was full, and its submitter's newer logs needed its room"

log = structlog.get_logger(__name__)

_BACKENDS = """
    SELECT DISTINCT g.backend_id FROM workflows_task t JOIN workflows_taskgroup g ON g.uuid = t.group_id
     WHERE t.log_state = '' AND t.end_time IS NOT NULL AND g.released_at IS NULL AND g.end_time IS NULL
       AND (t.log_try_at IS NULL OR t.log_try_at < clock_timestamp())
"""
_CLAIM = """
    UPDATE workflows_task SET log_try_at = clock_timestamp() + make_interval(secs => %(seconds)s)
     WHERE id IN (
        SELECT t.id FROM workflows_task t JOIN workflows_taskgroup g ON g.uuid = t.group_id
         WHERE t.log_state = '' AND t.end_time IS NOT NULL AND g.released_at IS NULL AND g.end_time IS NULL
           AND g.backend_id = %(backend)s
           AND (t.log_try_at IS NULL OR t.log_try_at < clock_timestamp())
         ORDER BY t.end_time LIMIT %(most)s FOR UPDATE OF t SKIP LOCKED)
 RETURNING id
"""


def backends_due() -> list[int]:
    """Backends with unread logs of ended pods whose groups go on."""
    with connection.cursor() as cursor:
        cursor.execute(_BACKENDS)
        return [row[0] for row in cursor.fetchall()]


def claim(backend_id: int, *, most: int = BATCH) -> list[int]:
    """Claim some of a backend's unread logs for a while; after a failure the next sweep claims them again."""
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, {"seconds": CLAIM_SECONDS, "backend": backend_id, "most": most})
        return [row[0] for row in cursor.fetchall()]


def settle_released() -> int:
    """Record that unread logs of released groups were not read: their pods are deleted."""
    released = Task.objects.filter(log_state="", end_time__isnull=False, group__released_at__isnull=False)
    ids = list(released.order_by().values_list("pk", flat=True)[:SETTLED_AT_ONCE])
    note = Case(When(scheduling_start_time=None, then=Value(NEVER)), default=Value(POD_DELETED))
    return Task.objects.filter(pk__in=ids, log_state="").update(log_state=Task.LogState.UNREAD, log_note=note)


def keep_within_bounds() -> int:
    """Remove what the bounds of the store do not allow. Returns how many logs were removed."""
    until = time.monotonic() + SWEEP_SECONDS
    unfinished = Q(stored_at=None, begun_at__lt=Now() - UNFINISHED)
    nobodys = KeptLog.objects.filter(Q(task=None) | unfinished)
    removed = _remove(nobodys[:REMOVED_AT_ONCE], why="", until=until)
    old = KeptLog.objects.filter(stored_at__lt=Now() - timedelta(days=settings.ENV.log_days))
    removed += _remove(old.order_by("stored_at")[:REMOVED_AT_ONCE], why=TOO_OLD, until=until)
    while time.monotonic() < until and (rows := _beyond_the_total()):
        count = _remove(rows, why=NO_ROOM, until=until)
        removed += count
        if count < len(rows):
            break
    return removed


def _beyond_the_total() -> list[KeptLog]:
    """The logs that must go so that the rest is within the total, as many as are done at once."""
    most = settings.ENV.log_total_bytes
    if (KeptLog.objects.aggregate(total=Sum("size"))["total"] or 0) <= most:
        return []
    sizes = dict(KeptLog.objects.order_by().values_list(SUBMITTER).annotate(total=Sum("size")))
    level = fair_level(sizes.values(), most=most)
    chosen: list[KeptLog] = []
    for submitter, size in sorted(sizes.items(), key=lambda item: -item[1]):
        chosen += _oldest_of(submitter, size - level, most=REMOVED_AT_ONCE - len(chosen))
    return chosen


def fair_level(sizes: Iterable[int], *, most: int) -> int:
    """The highest level to which the larger sizes must shrink so that the sum of all is at most ``most``."""
    left, room = sorted(sizes), most
    while left:
        level = room // len(left)
        if left[0] > level:
            return level
        room -= left.pop(0)
    return room


def _oldest_of(submitter: str | None, over: int, *, most: int) -> list[KeptLog]:
    """A submitter's oldest logs that take ``over`` bytes, at most ``most`` of them."""
    if over <= 0 or most <= 0:
        return []
    rows = KeptLog.objects.filter(**{SUBMITTER: submitter}, stored_at__isnull=False).order_by(
        "stored_at", "pk"
    )
    chosen = []
    for row in rows[:most]:
        if over <= 0:
            break
        chosen.append(row)
        over -= row.size
    return chosen


def _remove(rows: Iterable[KeptLog], *, why: str, until: float) -> int:
    store, removed = installed_store(), 0
    for row in rows:
        if time.monotonic() > until:
            break
        try:
            store.remove(row.name)
        except StoreFailed as error:
            LOGS.labels("store_failed").inc()
            log.warning("log_not_removed", name=row.name, error=str(error))
            break
        if row.stored_at is not None and row.task_id is not None:
            Task.objects.filter(pk=row.task_id).update(log_state=Task.LogState.DROPPED, log_note=why)
        row.delete()
        removed += 1
    LOGS.labels("dropped").inc(removed)
    return removed
