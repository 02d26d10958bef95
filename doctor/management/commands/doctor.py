"""Compare the rows with the clusters and say what is not as promised. Safe at any time."""

import json
import sys
from argparse import ArgumentParser
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import Error as DatabaseError

from doctor.facts import Limits
from doctor.run import as_json, as_text, audit
from doctor.submissions import Sent, read_log
from pools.models import Backend

SWEEPS = 5
COULD_NOT_LOOK = 2


class Command(BaseCommand):
    help = (
        "Compare the database with every backend's cluster: lost, leaked, doubled, half-made and stuck work, "
        "statuses that disagree. Reads only, unless --repair. Ends with 0 for clean, 1 for findings, 2 if it "
        "could not look."
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
            help="pause before the second look at what carries no time (15; 0 with --grace 0)",
        )
        parser.add_argument(
            "--history", type=float, default=24.0, metavar="HOURS", help="how long ago ended work may be"
        )
        parser.add_argument(
            "--submissions", type=Path, metavar="FILE", help="JSON lines: key, user, pool, status, workflow"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        del args
        try:
            report = audit(
                limits=_limits(options["grace"]),
                backend=_known(options["backend"]),
                history=timedelta(hours=options["history"]),
                confirm=_confirm(options["grace"], options["confirm"]),
                mend=options["repair"],
                log=_log(options["submissions"]),
            )
        except (DatabaseError, OSError, ValueError) as error:
            self.stderr.write(f"could not look: {error}")
            sys.exit(COULD_NOT_LOOK)
        self.stdout.write(json.dumps(as_json(report)) if options["json"] else as_text(report))
        sys.exit(report.exit_code)


def _limits(grace: float | None) -> Limits:
    if grace is None:
        return Limits()
    least = timedelta(seconds=SWEEPS * settings.ENV.sweep_seconds)
    return Limits.all(timedelta(seconds=grace), due_at_least=least)


def _confirm(grace: float | None, given: float | None) -> float:
    if given is not None:
        return given
    return 0.0 if grace == 0 else 15.0


def _known(name: str) -> str:
    """The name of a backend. Raises ValueError, naming those there are."""
    there = list(Backend.objects.filter(cleaned_at=None).order_by("name").values_list("name", flat=True))
    if name and name not in there:
        raise ValueError(f'there is no backend "{name}"; there are {", ".join(there) or "none"}')
    return name


def _log(path: Path | None) -> tuple[Sent, ...] | None:
    return None if path is None else read_log(path.read_text().splitlines())
