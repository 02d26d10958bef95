"""Check the installation and the clusters of its backends before work depends on them. Changes nothing."""

import json
import sys
from argparse import ArgumentParser
from contextlib import suppress
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from pools import selectors
from pools.preflight.report import as_json, as_text, preflight

SECONDS = 600.0


class Command(BaseCommand):
    help = (
        "Check database, broker and clocks, and of each backend's cluster the scheduler, driver, "
        "definitions, labels and our rights. Changes nothing. Exit code: 1 if a check failed, else 0."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument("--backend", default="", metavar="NAME", help="only this backend's cluster")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 -- Django's signature
        rows = selectors.living_backends().select_related("cluster").order_by("name")
        if name := options["backend"]:
            rows = rows.filter(name=name)
            with suppress(DatabaseError):  # which the report says
                if not rows.exists():
                    raise CommandError(f'There is no backend "{name[:63]}".')
        report = preflight(rows, seconds=SECONDS)
        text = json.dumps(as_json(report), indent=2) if options["json"] else "\n".join(as_text(report))
        self.stdout.write(text)
        if report.exit_code:
            sys.exit(report.exit_code)
