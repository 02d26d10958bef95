"""Is the process alive, and can it serve: Kubernetes' names, no login."""

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse


def livez(request: HttpRequest) -> JsonResponse:  # noqa: ARG001 -- Django's signature
    """Answer as long as the process can; touches nothing else."""
    return JsonResponse({"status": "ok"})


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
