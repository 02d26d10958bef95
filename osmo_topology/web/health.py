"""Is the process alive, and can it serve: Kubernetes' names, no login."""

from collections.abc import Callable
from functools import wraps

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from osmo_topology.web import errors

View = Callable[[HttpRequest], JsonResponse]


def _reads_only(view: View) -> View:
    """Refuse other methods than GET and HEAD in the one shape, ahead of the check for forged forms."""

    @csrf_exempt
    @wraps(view)
    def answer(request: HttpRequest) -> JsonResponse:
        if request.method not in {"GET", "HEAD"}:
            return errors.method_not_allowed(request, allowed=("GET", "HEAD"))
        return view(request)

    return answer


@_reads_only
def livez(request: HttpRequest) -> JsonResponse:  # noqa: ARG001 -- Django's signature
    """Answer as long as the process can; touches nothing else."""
    return JsonResponse({"status": "ok"})


@_reads_only
def readyz(request: HttpRequest) -> JsonResponse:  # noqa: ARG001 -- Django's signature
    """Say for each thing this process needs whether it answers; 503 if one does not."""
    checks = {"database": _database(), "broker": _broker()}
    ready = all(answer == "ok" for answer in checks.values())
    return JsonResponse({"status": "ok" if ready else "unavailable", **checks}, status=200 if ready else 503)


def _database() -> str:
    try:
        executor = MigrationExecutor(connection)
        pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError:
        return "does not answer"
    return f"{len(pending)} migrations not applied" if pending else "ok"


def _broker() -> str:
    try:
        with redis.Redis.from_url(_plain_url(settings.CELERY_BROKER_URL), socket_timeout=2) as client:
            client.ping()
    except redis.RedisError:
        return "does not answer"
    return "ok"


def _plain_url(url: str) -> str:
    """Celery writes a socket as ``redis+socket://``, redis-py as ``unix://``."""
    return url.replace("redis+socket://", "unix://", 1).replace("virtual_host=", "db=")
