"""The right of this database to write in a cluster: a mark in each namespace, and the same mark in a row.

A database that was put back to an earlier state, or copied and started beside the original, does not know the
work that was begun since, and would delete it as orphans within minutes. So the installation has a mark in
one ConfigMap of each namespace that it writes in: an epoch that grows while it is at work, and a random nonce
for each epoch. A database whose row has a lower epoch, or another nonce, writes nothing in that cluster until
an operator lets it take over (``manage.py adopt``).

The epoch is raised at most every ``RAISE_SECONDS``, by whichever worker checks first, in three steps that any
other worker may continue: the next nonce into the row, the mark into the ConfigMap (by its resourceVersion),
the new epoch into the row. A mark is therefore the row's present one or its pending one, and a row that was
put back by longer than ``RAISE_SECONDS`` is behind its mark. Of two copies of one database with the same mark
the first to raise it goes on, and the other stops.

A check compares the row, read at most ``ROW_SECONDS`` ago (before a delete: now), with the mark of the
namespace, read from the cluster at most ``MARK_SECONDS`` ago: two small reads per process and namespace in
five seconds of writing, and none per step. The mark is read before the row: the row may have been raised
since, and a mark below its row is no reason to stop. Probes examine every backend's mark, idle ones too.

A refusal in one namespace is a refusal in the whole cluster: it is kept in the row, where every other worker
reads it. An object of the whole cluster needs one namespace that is confirmed and none that is refused. An
error while a mark is read or written is neither: nothing is written, and it is tried again.

A mark that is missing is written again where the row was confirmed lately, since somebody deleted it by hand;
otherwise an operator is asked, since an old database may have met a new namespace.

Rejected: the installation's uuid alone (a copy has it too), a lease in the cluster (two processes of one
installation write at once), and the age of the newest row (an idle installation is no old one).
"""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import structlog
from django.db import connection
from django.db.models import F, Q
from django.db.models.functions import Now

from cluster.clock import boot_seconds
from cluster.connection import Access
from cluster.errors import (
    AlreadyExists,
    ClusterError,
    ClusterUnreachable,
    DeadlinePassed,
    Invalid,
    RequestForbidden,
    TooManyRequests,
    WriteConflict,
    WritesSuspended,
    WritesUnconfirmed,
)
from cluster.interface import ClusterApi, Obj
from cluster.kinds import CONFIG_MAP, NAMESPACE
from pools.conditions import Condition
from pools.models import Backend, ClusterGuard, Installation
from web.database.model_rows import Columns

CONFIG_MAP_NAME = "osmo-topology-installations"
MARK_SECONDS = 5.0
ROW_SECONDS = 1.0
RETRY_SECONDS = 1.0
RAISE_SECONDS = 15.0
UNRAISED = timedelta(minutes=1)
MISSING = timedelta(hours=1)
ATTEMPTS = 3
MOST_EPOCH = 2**62  # a raise of any that is read still fits the row's column

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class InstallationMark:
    """The mark of this installation in a namespace's ConfigMap."""

    epoch: int
    nonce: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRight:
    """Whether this database may write; ``reason`` is that of the condition ``WritesAllowed``.

    ``absent``: it may, once the mark is written.
    """

    allowed: bool
    reason: str = "MarkHeld"
    message: str = ""
    absent: bool = False

    def condition(self) -> Condition:
        return Condition(
            type="WritesAllowed",
            status="True" if self.allowed else "False",
            reason=self.reason,
            message=self.message,
        )


ALLOWED = WriteRight(allowed=True)
ABSENT = WriteRight(allowed=True, absent=True)


@dataclass(frozen=True, slots=True)
class _Reading:
    """A mark as read from the cluster, with the version of its ConfigMap (empty: there is none).

    It is not older than ``at``; a row that was read after ``ended`` has every raise that the mark shows.
    """

    cluster_uid: str
    mark: InstallationMark | None
    garbled: bool
    version: str
    at: float
    ended: float


def judge(row: ClusterGuard | None, mark: InstallationMark | None, *, lately: bool) -> WriteRight:
    """Compare the row with the mark. ``lately``: the row was confirmed within ``MISSING``."""
    if row is None or not row.epoch:
        if mark is None:
            return ABSENT
        is_pending = row is not None and mark == _pending(row)
        return ALLOWED if is_pending else _refused("AnotherNonce", row, mark)
    if mark is None:
        return ABSENT if lately else _refused("Missing", row, mark)
    if mark in (InstallationMark(row.epoch, row.nonce), _pending(row)) or mark.epoch < row.epoch:
        return ALLOWED
    return _refused("HigherEpoch" if mark.epoch > row.epoch else "AnotherNonce", row, mark)


def _pending(row: ClusterGuard) -> InstallationMark | None:
    return InstallationMark(row.epoch + 1, row.pending_nonce) if row.pending_nonce else None


_CAUSES = {
    "HigherEpoch": "a newer state of its database has written there (epoch {there}, here {here})",
    "AnotherNonce": "another copy of its database has written there (epoch {there}, here {here})",
    "Missing": "its mark is gone, and this database last confirmed it long ago (epoch {here})",
    "Unreadable": "its mark in the cluster cannot be read",
}


def _refused(reason: str, row: ClusterGuard | None, mark: InstallationMark | None) -> WriteRight:
    cause = _CAUSES[reason].format(there=mark.epoch if mark else 0, here=row.epoch if row else 0)
    message = (
        f"Nothing is written in this cluster, because {cause}. Stop this installation if it is a copy; if it "
        "was restored from a backup, see `manage.py adopt`."
    )
    return WriteRight(allowed=False, reason=reason, message=message)


class Guard:
    """The checks of one process for one way to a cluster. Thread-safe; ``cluster`` is not guarded itself."""

    def __init__(self, access: Access, cluster: ClusterApi) -> None:
        self._access = access
        self._cluster = cluster

    def permit(self, namespace: str, *, deletes: bool) -> None:
        """Raise WritesSuspended unless this database may write in the namespace (empty: in the cluster).

        Raises another ClusterError if that is not known.
        """
        try:
            uid = self._checked(namespace, now=deletes) if namespace else self._checked_somewhere(now=deletes)
        except WritesSuspended:
            raise
        except ClusterError as error:
            raise _unconfirmed(error) from error
        if message := _rows.read().refusal(uid):
            raise WritesSuspended(message)

    def examine(self, namespace: str) -> WriteRight:
        """Read the mark now, raise the epoch if it is time, judge, record a refusal. Raises ClusterError."""
        for attempt in range(1, ATTEMPTS + 1):
            reading = self._read(namespace)
            row = _row(reading.cluster_uid, namespace)
            verdict = _judged(row, reading)
            try:
                if verdict.allowed:
                    mark = self._keep(namespace, reading, row, verdict)
                    reading = replace(reading, mark=mark)
            except (AlreadyExists, WriteConflict):  # another worker, or another installation beside
                if attempt == ATTEMPTS:
                    raise
                continue
            _record(reading.cluster_uid, namespace, verdict)
            _readings[self._access, namespace] = reading
            return verdict
        raise AssertionError("unreachable: the last attempt returns or raises")

    def adopt(self, namespace: str) -> InstallationMark:
        """Write a mark above every other, whatever is there. Raises ClusterError."""
        for attempt in range(1, ATTEMPTS + 1):
            reading = self._read(namespace)
            uid = reading.cluster_uid
            row = _row(uid, namespace)
            epoch = max(reading.mark.epoch if reading.mark else 0, row.epoch if row else 0)
            nonce = uuid.uuid4().hex
            ClusterGuard.objects.update_or_create(
                cluster_uid=uid,
                namespace=namespace,
                defaults={"epoch": epoch, "nonce": nonce, "pending_nonce": nonce, "refusal": ""},
            )
            try:
                self._write(namespace, reading, InstallationMark(epoch + 1, nonce))
            except (AlreadyExists, WriteConflict):
                if attempt == ATTEMPTS:
                    raise
                continue
            _confirm(uid, namespace, nonce)
            forget()
            return InstallationMark(epoch + 1, nonce)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _checked(self, namespace: str, *, now: bool) -> str:
        """Check one namespace; returns the cluster's uid. ``now``: by the row as it is now."""
        reading = _readings.get((self._access, namespace))
        if reading is not None and boot_seconds() - reading.at < MARK_SECONDS:
            uid = reading.cluster_uid
            row = _row(uid, namespace) if now else _rows.read(reading.ended).guards.get((uid, namespace))
            verdict = _judged(row, reading)
            if verdict.allowed and not verdict.absent:
                return uid
            if not verdict.allowed and boot_seconds() - reading.at < RETRY_SECONDS:
                raise WritesSuspended(verdict.message)
        verdict = self.examine(namespace)
        if not verdict.allowed:
            raise WritesSuspended(verdict.message)
        reading = _readings.get((self._access, namespace))
        return reading.cluster_uid if reading else self._uid()

    def _checked_somewhere(self, *, now: bool) -> str:
        """Check the namespaces of this address until one is confirmed; returns the cluster's uid."""
        trouble: ClusterError = WritesUnconfirmed("no backend of this address has a namespace with a mark")
        for namespace in sorted(_rows.read().namespaces_at(self._access)):
            try:
                return self._checked(namespace, now=now)
            except WritesSuspended:
                raise
            except ClusterError as error:  # the right to one namespace may be missing
                trouble = error
        raise trouble

    def _uid(self) -> str:
        return self._cluster.kube_system_uid()

    def _read(self, namespace: str) -> _Reading:
        uid, at = self._uid(), boot_seconds()
        obj = self._cluster.get(CONFIG_MAP, CONFIG_MAP_NAME, namespace=namespace)
        if obj is None:
            return _Reading(uid, None, garbled=False, version="", at=at, ended=boot_seconds())
        ended = boot_seconds()
        text = (obj.get("data") or {}).get(_installation())
        mark = _mark(text) if text is not None else None
        version = str(obj["metadata"]["resourceVersion"])
        is_garbled = text is not None and mark is None
        return _Reading(uid, mark, garbled=is_garbled, version=version, at=at, ended=ended)

    def _keep(
        self, namespace: str, reading: _Reading, row: ClusterGuard | None, verdict: WriteRight
    ) -> InstallationMark | None:
        """Confirm a pending mark, and raise the epoch if it is time or the mark is missing.

        Returns the mark that is there now.
        """
        uid = reading.cluster_uid
        if row is None:
            row, _ = ClusterGuard.objects.get_or_create(cluster_uid=uid, namespace=namespace)
        if reading.mark is not None and reading.mark == _pending(row):
            _confirm(uid, namespace, reading.mark.nonce)
            return reading.mark
        pending = _begin(row, at_once=verdict.absent)
        if pending is None:
            return reading.mark
        try:
            self._write(namespace, reading, pending)
        except (RequestForbidden, Invalid):
            _begin_again(uid, namespace)
            raise
        _confirm(uid, namespace, pending.nonce)
        return pending

    def _write(self, namespace: str, reading: _Reading, mark: InstallationMark) -> None:
        data = {_installation(): json.dumps({"epoch": mark.epoch, "nonce": mark.nonce})}
        if reading.version:
            body: Obj = {"metadata": {"resourceVersion": reading.version}, "data": data}
            self._cluster.patch(CONFIG_MAP, CONFIG_MAP_NAME, body, namespace=namespace)
            return
        labels = {"app.kubernetes.io/managed-by": "osmo-topology"}
        if self._cluster.get(NAMESPACE, namespace) is None:
            self._cluster.create(NAMESPACE, {"metadata": {"name": namespace, "labels": labels}})
        metadata = {"name": CONFIG_MAP_NAME, "namespace": namespace, "labels": labels}
        self._cluster.create(CONFIG_MAP, {"metadata": metadata, "data": data})


def _judged(row: ClusterGuard | None, reading: _Reading) -> WriteRight:
    if reading.garbled:
        return _refused("Unreadable", row, None)
    lately = row is not None and bool(getattr(row, "lately", False))
    return judge(row, reading.mark, lately=lately)


def _unconfirmed(error: ClusterError) -> ClusterError:
    """The error of a write that was not sent, because its right could not be confirmed."""
    if isinstance(error, WritesUnconfirmed | DeadlinePassed | TooManyRequests):
        return error
    if isinstance(error, ClusterUnreachable):
        return ClusterUnreachable(error.message, request=error.request)
    return WritesUnconfirmed(
        f'Nothing is written without this installation\'s mark ("{CONFIG_MAP_NAME}"), which could not be '
        f"read or written: {error}"
    )


def _mark(text: str) -> InstallationMark | None:
    try:
        content: Any = json.loads(text)
        epoch, nonce = int(content["epoch"]), str(content["nonce"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    return InstallationMark(epoch, nonce) if 0 < epoch < MOST_EPOCH else None


_GUARD = Columns(ClusterGuard)
_ROW = f"""
    SELECT {_GUARD.sql("g")}, confirmed_at > statement_timestamp() - make_interval(secs => %(missing)s)
      FROM pools_clusterguard AS g WHERE cluster_uid = %(cluster)s AND namespace = %(namespace)s
"""  # noqa: S608 -- names of columns


def _row(uid: str, namespace: str) -> ClusterGuard | None:
    """The row as it is now, written out: each delete in the cluster waits for it."""
    values: dict[str, Any] = {"missing": MISSING.total_seconds(), "cluster": uid, "namespace": namespace}
    with connection.cursor() as cursor:
        cursor.execute(_ROW, values)
        columns = cursor.fetchone()
    if columns is None:
        return None
    row = _GUARD.instance(columns)
    vars(row)["lately"] = columns[-1]
    return row


def _begin(row: ClusterGuard, *, at_once: bool) -> InstallationMark | None:
    """Choose the next nonce, unless a raise was begun a moment ago; a chosen one is kept until it is used.

    If none has ended for ``UNRAISED``, or the cluster forbids it, each check raises, and fails with it: an
    epoch that cannot grow tells no state from a later one.
    """
    rows = ClusterGuard.objects.filter(pk=row.pk, epoch=row.epoch)
    ClusterGuard.objects.filter(pk=row.pk, epoch=row.epoch, pending_nonce="").update(
        pending_nonce=uuid.uuid4().hex
    )
    is_due = Q(raised_at=None) | Q(raised_at__lt=Now() - timedelta(seconds=RAISE_SECONDS))
    is_due |= Q(confirmed_at=None) | Q(confirmed_at__lt=Now() - UNRAISED)
    if not rows.filter(Q() if at_once else is_due).update(raised_at=Now()):
        return None
    nonce = rows.values_list("pending_nonce", flat=True).first()
    return InstallationMark(row.epoch + 1, nonce) if nonce else None


def _begin_again(uid: str, namespace: str) -> None:
    """Let every check raise until a raise ends, since the cluster does not permit it."""
    ClusterGuard.objects.filter(cluster_uid=uid, namespace=namespace).update(raised_at=None)


def _confirm(uid: str, namespace: str, nonce: str) -> None:
    ClusterGuard.objects.filter(cluster_uid=uid, namespace=namespace, pending_nonce=nonce).update(
        epoch=F("epoch") + 1, nonce=nonce, pending_nonce="", confirmed_at=Now(), raised_at=Now()
    )


def _record(uid: str, namespace: str, verdict: WriteRight) -> None:
    """Record a refusal where every worker reads it, or its end."""
    rows = ClusterGuard.objects.filter(cluster_uid=uid, namespace=namespace)
    if rows.exclude(refusal=verdict.message).update(refusal=verdict.message):
        _rows.clear()
    elif not verdict.allowed and not rows.exists():
        ClusterGuard.objects.get_or_create(
            cluster_uid=uid, namespace=namespace, defaults={"refusal": verdict.message}
        )
        _rows.clear()


def _installation() -> str:
    row, _ = Installation.objects.get_or_create(singleton=True)
    return str(row)


@dataclass(frozen=True, slots=True)
class _RowsRead:
    """Rows read after ``at``. ``backends``: how each is reached, its cluster, its namespace."""

    at: float
    guards: Mapping[tuple[str, str], ClusterGuard]
    backends: frozenset[tuple[Access, str, str]]

    def refusal(self, uid: str) -> str:
        """Why nothing may be written in the cluster; empty if nothing is known against it."""
        places = sorted({(cluster, namespace) for _, cluster, namespace in self.backends if cluster == uid})
        return next((row.refusal for place in places if (row := self.guards.get(place)) and row.refusal), "")

    def namespaces_at(self, access: Access) -> frozenset[str]:
        return frozenset(namespace for place, _, namespace in self.backends if place == access)


class _Rows:
    """Rows as read by this process at most ``ROW_SECONDS`` ago."""

    def __init__(self) -> None:
        self._last: _RowsRead | None = None

    def read(self, since: float = float("-inf")) -> _RowsRead:
        """The rows as read after ``since``: those read before a mark may lack its raise."""
        last = self._last
        if last is None or last.at <= since or boot_seconds() - last.at >= ROW_SECONDS:
            self._last = last = _read_rows()
        return last

    def clear(self) -> None:
        self._last = None


def _read_rows() -> _RowsRead:
    at = boot_seconds()
    guards = ClusterGuard.objects.annotate(lately=Q(confirmed_at__gt=Now() - MISSING))
    backends = Backend.objects.filter(cleaned_at=None)
    columns = backends.values_list("kubeconfig", "context", "cluster_id", "namespace")
    return _RowsRead(
        at=at,
        guards={(row.cluster_uid, row.namespace): row for row in guards},
        backends=frozenset(
            (Access(kubeconfig, context), str(uid or ""), namespace)
            for kubeconfig, context, uid, namespace in columns
        ),
    )


_readings: dict[tuple[Access, str], _Reading] = {}
"""Marks as last read by this process."""

_rows = _Rows()


def forget() -> None:
    """Forget what this process has read."""
    _readings.clear()
    _rows.clear()
