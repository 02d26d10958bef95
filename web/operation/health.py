"""Is the process alive, and can it serve: Kubernetes' names, no login.

``/readyz`` has one line for each dependency of the installation. A dependency that this process needs
makes the answer 503, so that it gets no requests. Any other one makes the status "degraded" alone: beat
being down, or a database that can only be read, is no reason to take every web replica out of service.
Apps add their dependencies with ``register``.

Bounded: a server that accepts a connection and then stays silent would hold a request for ever, and no time
limit of a driver covers that. So each probe runs in a thread of its own, and a request waits for it for some
seconds. Requests at the same time share one probe, so strangers cannot make the service open connections.
Lines contain no address, no credential and no error of a library. A dependency that belongs to a backend is
named to callers who may read that backend's configuration and to whoever bears the token of the metrics;
everybody else reads a number in place of the name.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, wraps
from typing import Any
from uuid import uuid4

import redis
import structlog
from django.conf import settings
from django.contrib.auth.models import User
from django.db import DatabaseError, connection, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.module_loading import import_string
from django.views.decorators.csrf import csrf_exempt
from rest_framework.exceptions import APIException
from rest_framework.request import Request

from web.access.rights import read_grants
from web.limits.redis_server import redis_client
from web.models import RateBucket
from web.operation.scraping import bears_token
from web.policy import Action
from web.rest import errors

View = Callable[[HttpRequest], HttpResponse]

PROBE_SECONDS = 3.0
WRITE_SECONDS = 30.0
"""Between two writes of a process."""
OK = "ok"
SILENT = "does not answer"
REFUSES = "refused; what is read goes on"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DependencyStatus:
    """One dependency: its name, one line about it, and whether this process can serve without it.

    ``backend`` is the backend it belongs to, whose name not everybody may know; ``detail`` ends the line for
    those who may.
    """

    name: str
    line: str
    needed: bool = False
    backend: str = ""
    detail: str = ""


DependencyProbe = Callable[[], Sequence[DependencyStatus]]


@dataclass(slots=True)
class _SharedProbe:
    """A probe that runs at most once at a time, for any number of requests."""

    name: str
    needed: bool
    probe: DependencyProbe
    lock: threading.Lock = field(default_factory=threading.Lock)
    running: "_ProbeRun | None" = None

    def begin(self) -> "_ProbeRun":
        with self.lock:
            if self.running is None or self.running.done.is_set():
                self.running = _ProbeRun(self)
                threading.Thread(target=self.running.run, name=f"probe of {self.name}", daemon=True).start()
            return self.running


@dataclass(slots=True)
class _ProbeRun:
    shared: _SharedProbe
    done: threading.Event = field(default_factory=threading.Event)
    statuses: Sequence[DependencyStatus] = ()

    def run(self) -> None:
        try:
            self.statuses = self.shared.probe()
        except Exception:  # an exception in one probe must still give a line about it
            log.exception("probe_failed", dependency=self.shared.name)
            self.statuses = [self._status("the probe failed, see the log")]
        finally:
            connection.close()
            self.done.set()

    def wait(self, *, until: float) -> Sequence[DependencyStatus]:
        if not self.done.wait(max(0.0, until - time.monotonic())):
            return [self._status(SILENT)]
        return self.statuses

    def _status(self, line: str) -> DependencyStatus:
        return DependencyStatus(name=self.shared.name, line=line, needed=self.shared.needed)


_probes: dict[str, _SharedProbe] = {}


def register(name: str, probe: DependencyProbe, *, needed: bool) -> None:
    """Add a line to ``/readyz``; ``name`` and ``needed`` are used when the probe itself fails."""
    _probes[name] = _SharedProbe(name, needed, probe)


def reads_only(view: View) -> View:
    """Refuse other methods than GET and HEAD in the one shape, ahead of the check for forged forms."""

    @csrf_exempt
    @wraps(view)
    def answer(request: HttpRequest) -> HttpResponse:
        if request.method not in {"GET", "HEAD"}:
            return errors.method_not_allowed(request, allowed=("GET", "HEAD"))
        return view(request)

    return answer


@reads_only
def livez(request: HttpRequest) -> HttpResponse:  # noqa: ARG001 -- Django's signature
    """Answer as long as the process can; touches nothing else."""
    return JsonResponse({"status": OK})


@reads_only
def readyz(request: HttpRequest) -> HttpResponse:
    """Report the status of each dependency; 503 if this process cannot serve without one that fails."""
    runs = [shared.begin() for shared in _probes.values()]
    until = time.monotonic() + PROBE_SECONDS
    statuses = [dependency for run in runs for dependency in run.wait(until=until)]
    failing = [dependency for dependency in statuses if not dependency.line.startswith(OK)]
    serves = not any(dependency.needed for dependency in failing)
    status = "unavailable" if not serves else "degraded" if failing else OK
    return JsonResponse({"status": status, **_lines(request, statuses)}, status=200 if serves else 503)


def _lines(request: HttpRequest, statuses: Sequence[DependencyStatus]) -> dict[str, str]:
    """The line of each dependency, with the names of those backends that the caller may know."""
    lines = {dependency.name: dependency.line for dependency in statuses if not dependency.backend}
    of_backends = [dependency for dependency in statuses if dependency.backend]
    if not of_backends:
        return lines
    readable = _readable_backends(request)
    for number, dependency in enumerate(of_backends, 1):
        is_readable = readable is None or dependency.backend in readable
        label = dependency.backend if is_readable else f"backend {number}"
        detail = dependency.detail if is_readable else ""
        lines[f"{dependency.name} of {label}"] = dependency.line + detail
    return lines


def _readable_backends(request: HttpRequest) -> frozenset[str] | None:
    """The backends whose configuration the caller may read; None for all. None of them for a stranger."""
    if bears_token(request.headers.get("Authorization", "")):
        return None
    try:
        user = _known_caller(request)
        return read_grants(user).names("backend", {Action.CONFIG_READ}) if user else frozenset()
    except DatabaseError:  # it answered the probe and has gone since
        return frozenset()


def _known_caller(request: HttpRequest) -> User | None:
    """The caller; None for a stranger and for credentials that are refused."""
    logins: Any = settings.REST_FRAMEWORK["DEFAULT_AUTHENTICATION_CLASSES"]
    try:
        user = Request(request, authenticators=[import_string(login)() for login in logins]).user
    except APIException:
        return None
    return user if isinstance(user, User) and user.is_active else None


def _database() -> list[DependencyStatus]:
    try:
        applied = MigrationRecorder(connection).applied_migrations()
    except DatabaseError:
        return [DependencyStatus(name="database", line=SILENT, needed=True)]
    pending = len(_migrations() - applied.keys())
    line = f"{pending} migrations not applied" if pending else OK
    return [
        DependencyStatus(name="database", line=OK, needed=True),
        DependencyStatus(name="migrations", line=line, needed=True),
    ]


_writes: tuple[float, str] = (float("-inf"), OK)
"""When a row was last written or refused, and what to say of it since."""


def _database_writes() -> list[DependencyStatus]:
    """Whether a row can be written, as none can on a standby or a full disk; a row that is there no more."""
    global _writes  # noqa: PLW0603 -- one probe at a time runs
    if time.monotonic() - _writes[0] >= WRITE_SECONDS:
        try:
            with transaction.atomic():
                RateBucket.objects.create(key=f"readyz:{uuid4()}", clear_at=Now()).delete()
            line = OK
        except DatabaseError as error:
            log.warning("database_refuses_writes", error=str(error).strip())
            line = REFUSES
        _writes = (time.monotonic(), line)
    return [DependencyStatus(name="database writes", line=_writes[1])]


@cache
def _migrations() -> frozenset[tuple[str, str]]:
    """Every migration of this release, read once."""
    return frozenset(MigrationLoader(None, ignore_no_migrations=True).disk_migrations)


def _redis() -> list[DependencyStatus]:
    try:
        with redis_client(settings.CELERY_BROKER_URL) as client:
            client.ping()
    except redis.RedisError:
        return [DependencyStatus(name="redis", line=f"{SILENT}; what was accepted waits until it does")]
    return [DependencyStatus(name="redis", line=OK)]


register("database", _database, needed=True)
register("database writes", _database_writes, needed=False)
register("redis", _redis, needed=False)
