"""Which releases have worked on this database: what web waits for, and what a migration refuses.

An upgrade with Helm replaces every process at once, but web writes what workers must read. So web of a new
release becomes ready only once a worker of its release, or of a later one, has reported, and requests go to
the old web until then. Workers report when they have begun and every ``REPORT_SECONDS`` from then on.

Nobody is held up for ever: workers wait for no web, so neither a first installation nor a rollback stands
still, and the check asks which workers reported last, not whether they report now. A web process that was
ready once stays so: that all workers are away is no reason to refuse work, which waits for them.

A migration notes its release. The next release alone is a step that was tested, since each reads the
formats of the one before it and drops what that one no longer used; any other step is refused before
anything changes.
"""

import threading
import time
from datetime import timedelta

import structlog
from django.db import DatabaseError, connection
from django.db.models.functions import Now

from web.env import environment
from web.models import InstalledRelease
from web.operation import health
from web.release import VERSION, as_numbers

REPORT_SECONDS = 20.0
RETRY_SECONDS = 2.0
RECENT = timedelta(seconds=3 * REPORT_SECONDS)

log = structlog.get_logger(__name__)
_waited = threading.Event()


def report_worker() -> None:
    """Note that a worker of this release works."""
    _note("worked_at")


def note_migration() -> None:
    """Note that the schema is that of this release, or of a later one."""
    _note("migrated_at")


def _note(column: str) -> None:
    InstalledRelease.objects.bulk_create(
        [InstalledRelease(version=VERSION, **{column: Now()})],
        update_conflicts=True,
        unique_fields=["version"],
        update_fields=[column],
    )


def keep_reporting() -> None:
    """Report from a thread of its own for as long as this process lives."""
    threading.Thread(target=_report_for_ever, name="reports of this worker", daemon=True).start()


def _report_for_ever() -> None:
    while True:
        pause = REPORT_SECONDS
        try:
            report_worker()
        except DatabaseError as error:
            log.warning("worker_not_reported", error=str(error).strip())
            pause = RETRY_SECONDS
        finally:
            connection.close()
        time.sleep(pause)


def have_workers(own: str) -> bool:
    """Whether workers of this release or a later one are among those that reported last."""
    rows = InstalledRelease.objects.values_list("version", "worked_at")
    reports = {version: worked_at for version, worked_at in rows if worked_at}
    newest = max(reports.values(), default=None)
    return newest is not None and any(
        _key(version) >= _key(own) and worked_at > newest - RECENT for version, worked_at in reports.items()
    )


def workers() -> list[health.DependencyStatus]:
    """Whether web may take requests as far as workers are concerned; nothing once it may."""
    try:
        if _waited.is_set() or have_workers(VERSION):
            _waited.set()
            return []
    except DatabaseError:
        return [health.DependencyStatus(name="workers", line=health.SILENT, needed=True)]
    line = f"no worker of release {VERSION} or a later one has reported yet"
    return [health.DependencyStatus(name="workers", line=line, needed=True)]


def register_readiness() -> None:
    if environment().ready_after_workers:
        health.register("workers", workers, needed=True)


def refused_step(own: str) -> str:
    """Why this release must not migrate the database; empty if it may."""
    versions = InstalledRelease.objects.exclude(migrated_at=None).values_list("version", flat=True)
    present = max(versions, key=_key, default=own)
    if is_step(present, own) or is_step(own, present):
        return ""
    if _key(own) < _key(present):
        return f"The database is of release {present}, which {own} cannot use: go back one release at a time."
    return (
        f"The database is of release {present}, and {own} is not the next one: upgrade one minor release "
        "at a time. Nothing was changed."
    )


def is_step(present: str, following: str) -> bool:
    """Whether a release is the same minor release as the present one, or the next."""
    (major, minor, _), (next_major, next_minor, _) = _key(present), _key(following)
    if next_major == major:
        return next_minor in {minor, minor + 1}
    return next_major == major + 1 and next_minor == 0


def _key(version: str) -> tuple[int, int, int]:
    return as_numbers(version) or (0, 0, 0)
