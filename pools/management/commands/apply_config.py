"""``manage.py apply_config``: apply the file that OSMO_TOPOLOGY_CONFIG_FILE names, now."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from pools.services import declared


class Command(BaseCommand):
    help = "Bring configuration in line with its file now; workers do the same every few seconds."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--older", action="store_true", help="also a text that a newer one has replaced")

    def handle(self, *_: Any, **options: Any) -> None:
        condition = declared.apply(older=options["older"])
        if condition is None:
            raise CommandError("OSMO_TOPOLOGY_CONFIG_FILE is not set, so there is nothing to apply.")
        if condition["status"] != "True":
            raise CommandError(f"{condition['reason']}: {condition['message']}")
        self.stdout.write(f"{condition['reason']}: {condition['message']}")
