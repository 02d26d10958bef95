"""``manage.py make_administrator USER``: the first login of an installation; harmless when run again."""

import os
from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from web.access.gateway import USERNAME, USERNAME_RULE
from web.env import REFUSED

PASSWORD = "OSMO_ADMIN_PASSWORD"  # noqa: S105 -- a variable's name
PASSWORD_LENGTH = 12


class Command(BaseCommand):
    help = f"Make a superuser with the password of {PASSWORD}; one that is there already stays as it is."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user")

    @transaction.atomic
    def handle(self, *_: Any, **options: Any) -> None:
        name, password = options["user"], os.environ.get(PASSWORD, "")
        if not USERNAME.fullmatch(name):
            raise CommandError(f"USER: {USERNAME_RULE}", returncode=REFUSED)
        if User.objects.filter(username=name, is_superuser=True).exists():
            self.stdout.write(f"{name} is an administrator already; the password stays as it is.")
            return
        if User.objects.filter(username=name).exists():
            raise CommandError(
                f"{name} exists and is no administrator: choose another name, or make them one with "
                f"make_token {name} --admin.",
                returncode=REFUSED,
            )
        if len(password) < PASSWORD_LENGTH:
            raise CommandError(f"{PASSWORD}: at least {PASSWORD_LENGTH} characters", returncode=REFUSED)
        User.objects.create_superuser(name, password=password)
        self.stdout.write(f"{name} is an administrator.")
