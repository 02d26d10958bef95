"""Show what would follow if this database took over its clusters, and take over on confirmation."""

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from cluster.errors import ClusterError
from doctor.adopt import Candidate, adopt, candidates
from doctor.facts import Finding
from pools.models import Backend
from scheduling.sentences import one_line

MOST_LINES = 50


class Command(BaseCommand):
    help = (
        "After a database was restored, or started as a copy, it writes nothing in clusters where a newer or "
        "another state of it has written. Show what it would delete there, and take over with --yes."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--backend", default="", metavar="NAME", help="only this backend's cluster")
        parser.add_argument("--yes", action="store_true", help="take over without the question")

    def handle(self, *args: Any, **options: Any) -> None:
        del args
        if (
            options["backend"]
            and not Backend.objects.filter(name=options["backend"], cleaned_at=None).exists()
        ):
            raise CommandError(f'There is no backend "{options["backend"]}".')
        refused = list(candidates(options["backend"]))
        if not refused:
            self.stdout.write("Nothing to adopt: this database may write wherever it has a backend.")
        answers = [self._take(candidate, sure=options["yes"]) for candidate in refused]
        if not all(answers):
            sys.exit(1)

    def _take(self, candidate: Candidate, *, sure: bool) -> bool:
        """Show a candidate and take over on confirmation; False if the cluster could not be asked."""
        name = candidate.backend.name
        if candidate.problem:
            self.stderr.write(f"{name}: its mark could not be read: {one_line(candidate.problem)}")
            return False
        self._show(candidate)
        if not (sure or self._is_confirmed(candidate)):
            return True
        try:
            self.stdout.write(f"{name}: adopted, epoch {adopt(candidate)}.")
        except ClusterError as error:
            self.stderr.write(f"{name}: could not adopt: {one_line(str(error))}")
            return False
        return True

    def _show(self, candidate: Candidate) -> None:
        name, namespace = candidate.backend.name, candidate.namespace
        self.stdout.write(
            f"{name} (namespace {namespace}), {candidate.reason}: {one_line(candidate.message)}"
        )
        self._list("It would delete, because no row wants it", candidate.deletions)
        self._list("It would go on with these differences", candidate.differences)
        for sentence in candidate.unread:
            self.stdout.write(f"  Not read, so not compared: {one_line(sentence)}")

    def _list(self, title: str, findings: tuple[Finding, ...]) -> None:
        self.stdout.write(f"  {title}: {len(findings)}")
        for finding in findings[:MOST_LINES]:
            self.stdout.write(f"    {finding.kind}: {one_line(finding.message)}")
        if len(findings) > MOST_LINES:
            self.stdout.write(f"    and {len(findings) - MOST_LINES} more: see manage.py doctor --grace 0")

    def _is_confirmed(self, candidate: Candidate) -> bool:
        if not sys.stdin.isatty():
            self.stdout.write("  Nothing was changed: repeat with --yes to take over.")
            return False
        name = candidate.backend.name
        return input(f'Stop every other copy first. Type the backend\'s name "{name}" to take over: ') == name
