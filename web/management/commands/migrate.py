"""Django's ``migrate``, made safe to run while the service does; see ``web.database.migrating``."""

from typing import Any

from django.conf import settings
from django.core.management import CommandError
from django.core.management.commands import migrate
from django.db import OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from web.database.migrating import LOCK_SECONDS, alone, bounded, is_pooled, patiently
from web.env import REFUSED
from web.operation import rollout
from web.release import VERSION

TABLE = "web_installedrelease"

POOLED = (
    "Migrations need PostgreSQL itself, and a pooler stands between: they hold a lock of their session. Run "
    "this with OSMO_DATABASE_URL naming the server (in the chart: database.direct)."
)


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        connection = connections[options["database"]]
        _need_connection(connection)
        if is_pooled(connection):
            raise CommandError(POOLED, returncode=REFUSED)
        apply = super().handle
        limits = bounded(
            connection,
            lock_seconds=LOCK_SECONDS,
            statement_seconds=settings.ENV.migration_statement_seconds,
        )
        with limits, alone(connection):
            if options["app_label"]:
                patiently(lambda: apply(*args, **options))
                return
            _refuse_other_steps(connection)
            patiently(lambda: apply(*args, **options))
            if not (options["plan"] or options["check_unapplied"]):
                rollout.note_migration()


def _need_connection(connection: BaseDatabaseWrapper) -> None:
    """Raise CommandError with one sentence if the server cannot be used; its words have no password."""
    try:
        connection.ensure_connection()
    except OperationalError as error:
        reason = " ".join(str(error).split())
        raise CommandError(f"PostgreSQL does not answer, so nothing was changed: {reason}") from error


def _refuse_other_steps(connection: BaseDatabaseWrapper) -> None:
    """Raise CommandError if this release is not the next one of the database; a new database takes any."""
    tables = connection.introspection.table_names()
    if TABLE in tables and (refusal := rollout.refused_step(VERSION)):
        raise CommandError(refusal, returncode=REFUSED)
