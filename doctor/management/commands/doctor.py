"""Compare the rows with the clusters and print what differs from what is promised. Safe at any time."""

import json
import sys
from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand
from django.db import Error as DatabaseError

from doctor.facts import Tolerances
from doctor.report import as_json, as_text
from doctor.run import check
from pools.models import Backend
from web.operation.periodic import SWEEP_SECONDS

SWEEPS = 5
COULD_NOT_CHECK = 2


class Command(BaseCommand):
    help = (
        "Compare the database with every backend's cluster: lost, leaked, doubled, half-made and stuck work, "
        "statuses that disagree. Reads only, unless --repair. Exit code: 0 clean, 1 findings, 2 not "
        "every cluster could be read."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--repair", action="store_true", help="enqueue groups, sweep orphans, sync pools")
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument("--backend", default="", metavar="NAME", help="only this backend's cluster")
        parser.add_argument(
            "--grace", type=float, metavar="SECONDS", help="one limit for everything; 0 for a system at rest"
        )
        parser.add_argument(
            "--confirm",
            type=float,
            metavar="SECONDS",
            help="pause before the second reading of what has no time of its own (15; 0 with --grace 0)",
        )
        parser.add_argument(
            "--history", type=float, default=24.0, metavar="HOURS", help="how long ago ended work may be"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        del args
        try:
            report = check(
                limits=_limits(options["grace"]),
                backend=_backend(options["backend"]),
                history=timedelta(hours=options["history"]),
                confirm=_confirm(options["grace"], options["confirm"]),
                repairs=options["repair"],
            )
        except (DatabaseError, OSError, ValueError) as error:
            self.stderr.write(f"could not check: {error}")
            sys.exit(COULD_NOT_CHECK)
        self.stdout.write(json.dumps(as_json(report)) if options["json"] else as_text(report))
        sys.exit(report.exit_code)


def _limits(grace: float | None) -> Tolerances:
    if grace is None:
        return Tolerances()
    least = timedelta(seconds=SWEEPS * SWEEP_SECONDS)
    return Tolerances.all(timedelta(seconds=grace), due_at_least=least)


def _confirm(grace: float | None, confirm: float | None) -> float:
    if confirm is not None:
        return confirm
    return 0.0 if grace == 0 else 15.0


def _backend(name: str) -> str:
    """The name of a backend, or an empty one. Raises ValueError with the names that exist."""
    names = list(Backend.objects.filter(cleaned_at=None).order_by("name").values_list("name", flat=True))
    if name and name not in names:
        raise ValueError(f'there is no backend "{name}"; there are {", ".join(names) or "none"}')
    return name
