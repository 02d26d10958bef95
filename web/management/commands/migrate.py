"""Django's ``migrate``, made safe to run while the service does; see ``web.migrating``."""

from typing import Any

from django.conf import settings
from django.core.management import CommandError
from django.core.management.commands import migrate
from django.db import connections

from web.migrating import alone, bounded, is_pooled, patiently

POOLED = (
    "Migrations need PostgreSQL itself, and a pooler stands between: they hold a lock of their session. Run "
    "this with OSMO_DATABASE_URL naming the server (in the chart: database.direct)."
)


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        connection = connections[options["database"]]
        if is_pooled(connection):
            raise CommandError(POOLED)
        apply = super().handle
        limits = bounded(
            connection,
            lock_seconds=settings.ENV.migration_lock_seconds,
            statement_seconds=settings.ENV.migration_statement_seconds,
        )
        with limits, alone(connection):
            patiently(lambda: apply(*args, **options))
