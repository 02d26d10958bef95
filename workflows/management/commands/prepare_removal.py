"""``manage.py prepare_removal``: fail while the installation has work in a cluster, or end it first."""

import time
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection

from workflows.services import removal

POLL_SECONDS = 2.0
_TABLE = "workflows_taskgroup"


class Command(BaseCommand):
    help = "Fail while task groups are unreleased; with --clean, end all work and wait until nothing is left."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--clean",
            action="store_true",
            help="Delete all pools, cancel all workflows, and delete all backends once they are released.",
        )
        parser.add_argument("--seconds", type=float, default=900.0, help="Longest wait of --clean.")

    def handle(self, *_: Any, **options: Any) -> None:
        if not _has_tables():
            self.stdout.write("The database has no tables of the service, so there is no work to end.")
            return
        if options["clean"]:
            self._clean(until=time.monotonic() + options["seconds"])
        left = removal.traces()
        if left.groups:
            raise CommandError(
                f"Left in the clusters: {left}. Wait until they are released, or end them with --clean "
                "(in the chart: cleanup.enabled)."
            )
        if left.backends:
            self.stdout.write(f"This stays in the clusters: {left}.")

    def _clean(self, *, until: float) -> None:
        removal.end_all_work()
        self._wait(lambda: not removal.traces().groups, until=until)
        removal.delete_backends()
        if not removal.is_declared():
            self._wait(lambda: not removal.traces().backends, until=until)

    def _wait(self, is_done: Callable[[], bool], *, until: float) -> None:
        while not is_done():
            if time.monotonic() > until:
                raise CommandError(f"Still left in the clusters: {removal.traces()}. Run it again.")
            time.sleep(POLL_SECONDS)


def _has_tables() -> bool:
    """Whether there is an installation at all: the first one may have failed before its migrations."""
    try:
        return _TABLE in connection.introspection.table_names()
    except DatabaseError as error:
        raise CommandError(
            "PostgreSQL does not answer, so nobody knows what is left in the clusters. To remove the release "
            "all the same: helm uninstall --no-hooks."
        ) from error
