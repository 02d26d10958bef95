"""The name of command ``doctor`` in the release before; it goes with the next one."""

from typing import Any

from doctor.management.commands import doctor


class Command(doctor.Command):
    help = "Deprecated: use doctor."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stderr.write("manage.py audit is deprecated: use manage.py doctor")
        super().handle(*args, **options)
