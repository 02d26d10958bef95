"""Is the process alive, and can it serve: Kubernetes' names, no login.

``/readyz`` names everything this installation depends on, in one line each. What this process cannot serve
without makes the answer 503, so that no requests are sent here; all else only makes it "degraded", since
taking every web replica out of service because beat is down would help nobody. Apps add what they know with
``register``.

Bounded: a server that accepts a connection and falls silent would hold a request for ever, and drivers have
no time limit that covers it. So each look runs in a thread of its own, and whoever asks waits for it for some
seconds; all who ask meanwhile share that one look, which also keeps strangers from opening connections. Lines
say nothing of addresses, credentials or errors of libraries.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, wraps

import redis
import structlog
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from web import errors

View = Callable[[HttpRequest], HttpResponse]

LOOK_SECONDS = 3.0
OK = "ok"
SILENT = "does not answer"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One dependency: its name, one line about it, and whether this process can serve without it."""

    name: str
    line: str
    needed: bool = False


Look = Callable[[], Sequence[Finding]]


@dataclass(slots=True)
class _Shared:
    """A look that runs at most once at a time, however many ask for it."""

    name: str
    needed: bool
    look: Look
    lock: threading.Lock = field(default_factory=threading.Lock)
    running: "_Run | None" = None

    def begin(self) -> "_Run":
        with self.lock:
            if self.running is None or self.running.done.is_set():
                self.running = _Run(self)
                threading.Thread(target=self.running.go, name=f"look at {self.name}", daemon=True).start()
            return self.running


@dataclass(slots=True)
class _Run:
    shared: _Shared
    done: threading.Event = field(default_factory=threading.Event)
    found: Sequence[Finding] = ()

    def go(self) -> None:
        try:
            self.found = self.shared.look()
        except Exception:  # a fault of one look must still be an answer about it
            log.exception("look_failed", dependency=self.shared.name)
            self.found = [self._says("cannot be told, see the log")]
        finally:
            connection.close()
            self.done.set()

    def wait(self, *, until: float) -> Sequence[Finding]:
        if not self.done.wait(max(0.0, until - time.monotonic())):
            return [self._says(SILENT)]
        return self.found

    def _says(self, line: str) -> Finding:
        return Finding(name=self.shared.name, line=line, needed=self.shared.needed)


_looks: dict[str, _Shared] = {}


def register(name: str, look: Look, *, needed: bool) -> None:
    """Have ``/readyz`` tell of something; ``name`` and ``needed`` are for when ``look`` itself cannot."""
    _looks[name] = _Shared(name, needed, look)


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
def readyz(request: HttpRequest) -> HttpResponse:  # noqa: ARG001 -- Django's signature
    """Say of each dependency how it is; 503 if this process cannot serve without one that is not well."""
    runs = [shared.begin() for shared in _looks.values()]
    until = time.monotonic() + LOOK_SECONDS
    found = [finding for run in runs for finding in run.wait(until=until)]
    unwell = [finding for finding in found if not finding.line.startswith(OK)]
    serves = not any(finding.needed for finding in unwell)
    status = "unavailable" if not serves else "degraded" if unwell else OK
    lines = {finding.name: finding.line for finding in found}
    return JsonResponse({"status": status, **lines}, status=200 if serves else 503)


def _database() -> list[Finding]:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        applied = MigrationRecorder(connection).applied_migrations()
    except DatabaseError:
        return [Finding(name="database", line=SILENT, needed=True)]
    pending = len(_migrations() - applied.keys())
    line = f"{pending} migrations not applied" if pending else OK
    return [
        Finding(name="database", line=OK, needed=True),
        Finding(name="migrations", line=line, needed=True),
    ]


@cache
def _migrations() -> frozenset[tuple[str, str]]:
    """Every migration of this release, read once."""
    return frozenset(MigrationLoader(None, ignore_no_migrations=True).disk_migrations)


def _redis() -> list[Finding]:
    url = _plain_url(settings.CELERY_BROKER_URL)
    try:
        with redis.Redis.from_url(url, socket_timeout=2, socket_connect_timeout=2) as client:
            client.ping()
    except redis.RedisError:
        return [Finding(name="redis", line=f"{SILENT}; what was accepted waits until it does")]
    return [Finding(name="redis", line=OK)]


def _plain_url(url: str) -> str:
    """Celery writes a socket as ``redis+socket://``, redis-py as ``unix://``."""
    return url.replace("redis+socket://", "unix://", 1).replace("virtual_host=", "db=")


register("database", _database, needed=True)
register("redis", _redis, needed=False)
