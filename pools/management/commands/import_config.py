"""``manage.py import_config FILE``: write configuration from a file, all or nothing."""

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from pools.documents.yaml_text import TextLimits
from pools.services import ConfigChange, WriteMode, import_configuration
from pools.services.files import Imported, lines_of
from scheduling.errors import Fault, TopologyError, format_path
from scheduling.sentences import count_of


class Command(BaseCommand):
    help = "Write configuration from a YAML file in OSMO's shape; unchanged objects are left alone."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="A path, or - for standard input.")
        parser.add_argument("--dry-run", action="store_true", help="Show what would change; change nothing.")
        parser.add_argument("--prune", action="store_true", help="Delete what the file's sections leave out.")
        parser.add_argument("--force", action="store_true", help="Delete although work still runs there.")
        parser.add_argument("--description", default="", help="Why; kept in the history.")
        parser.add_argument("--user", default="import_config", help="Who; kept in the history.")

    def handle(self, *_: Any, **options: Any) -> None:
        text = _read(options["file"])
        why = options["description"] or f"Imported from {options['file']}."
        mode = WriteMode.DRY_RUN if options["dry_run"] else WriteMode.COMMIT
        change = ConfigChange(
            username=options["user"][:150], grants=None, description=why[:10_000], mode=mode
        )
        try:
            imported = import_configuration(
                text=text, change=change, prune=options["prune"], force=options["force"]
            )
        except TopologyError as error:
            raise CommandError(refusal(error.message, error.faults)) from error
        self._report(imported, verb="would change" if options["dry_run"] else "changed")

    def _report(self, imported: Imported, *, verb: str) -> None:
        if imported.diff:
            self.stdout.write(imported.diff)
        for notice in imported.notices:
            self.stderr.write(f"{format_path(notice.path)}: {notice.message}")
        self.stderr.write(f"{count_of(len(imported.changed), 'object')} {verb}.")


def _read(path: str) -> str:
    """The text of a file, never more than is read anyway. Raises CommandError."""
    most = TextLimits().size + 1
    try:
        if path == "-":
            return sys.stdin.read(most)
        with Path(path).open(encoding="utf-8") as file:
            return file.read(most)
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read: {error}") from error


def refusal(message: str, faults: tuple[Fault, ...]) -> str:
    """Every fault in a line of its own, with its place in the file."""
    if not faults:
        return message
    lines = lines_of(faults)
    return f"Nothing was imported, for {count_of(len(lines), 'fault')}:\n" + "\n".join(lines)
