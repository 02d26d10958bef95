"""Django's ``migrate``, made safe to run while the service does; see ``web.migrating``."""

from typing import Any

from django.conf import settings
from django.core.management.commands import migrate
from django.db import connections

from web.migrating import alone, bounded, patiently


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        connection = connections[options["database"]]
        apply = super().handle
        limits = bounded(
            connection,
            lock_seconds=settings.ENV.migration_lock_seconds,
            statement_seconds=settings.ENV.migration_statement_seconds,
        )
        with limits, alone(connection):
            patiently(lambda: apply(*args, **options))
