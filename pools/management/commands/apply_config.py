"""``manage.py apply_config``: bring configuration in line with the file that OSMO_CONFIG_FILE names, now."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from pools.services import declared


class Command(BaseCommand):
    help = "Bring configuration in line with its file now; workers do the same every few seconds."

    def handle(self, *_: Any, **__: Any) -> None:
        condition = declared.apply()
        if condition is None:
            raise CommandError("OSMO_CONFIG_FILE is not set, so there is nothing to apply.")
        if condition["status"] != "True":
            raise CommandError(f"{condition['reason']}: {condition['message']}")
        self.stdout.write(f"{condition['reason']}: {condition['message']}")
