"""``manage.py export_config [--types POOL BACKEND]``: print what import_config reads."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from pools.services import export_configuration
from pools.services.files import types_kept


class Command(BaseCommand):
    help = "Print the configuration as YAML, in OSMO's shape."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--types", nargs="+", choices=types_kept(), default=(), help="Only these types.")

    def handle(self, *_: Any, **options: Any) -> None:
        self.stdout.write(export_configuration(types=options["types"]), ending="")
