"""``manage.py make_token USER``: print a new personal token, making the user if need be."""

import os
from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from web.access.gateway import USERNAME, USERNAME_RULE
from web.access.services import TOKEN_NAME_RULE, is_token_name, make_token


class Command(BaseCommand):
    help = "Print a new personal token of a user, who is made if there is none of that name."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user")
        parser.add_argument("--name", default="unnamed", help="What the token is for.")
        parser.add_argument(
            "--admin",
            action="store_true",
            help="Make the user a superuser; OSMO_ADMIN_PASSWORD, if set, becomes the password.",
        )

    @transaction.atomic
    def handle(self, *_: Any, **options: Any) -> None:
        if not is_token_name(options["name"]):
            raise CommandError(f"--name: {TOKEN_NAME_RULE}")
        if not (
            USERNAME.fullmatch(options["user"]) or User.objects.filter(username=options["user"]).exists()
        ):
            raise CommandError(f"USER: {USERNAME_RULE}")
        user, is_new = User.objects.get_or_create(username=options["user"])
        if is_new:
            user.set_unusable_password()
        if options["admin"]:
            user.is_staff = user.is_superuser = True
            if password := os.environ.get("OSMO_ADMIN_PASSWORD"):
                user.set_password(password)
        user.save()
        self.stdout.write(make_token(user, name=options["name"]))
