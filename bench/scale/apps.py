"""The differences from a deployed service: where its clusters are, and that statements are counted."""

import os
from typing import Any

from django.apps import AppConfig
from django.db.backends.signals import connection_created
from prometheus_client import Counter

STATEMENTS = Counter("bench_sql_statements", "Statements sent to PostgreSQL, without those of transactions.")
SOCKET = "BENCH_SCALE_SOCKET"
"""The variable that names the socket of the clusters in memory."""


class ScaleConfig(AppConfig):
    """Each process of the service has this app, under its own command line."""

    name = "bench.scale"
    label = "bench_scale"

    def ready(self) -> None:
        from bench.scale.remote import RemoteCluster  # noqa: PLC0415 -- once Django is set up
        from pools.clusters import connect  # noqa: PLC0415 -- the same

        socket = os.environ[SOCKET]
        connect.connect = lambda access, *_: RemoteCluster(socket, access.context)
        connection_created.connect(_count, dispatch_uid="bench_scale")


def _count(connection: Any, **_: Any) -> None:
    if _counted not in connection.execute_wrappers:
        connection.execute_wrappers.append(_counted)


def _counted(execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
    STATEMENTS.inc()
    return execute(sql, params, many, context)
