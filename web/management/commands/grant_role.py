"""``manage.py grant_role USER ROLE...``: assign roles to a user, or take them away."""

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from web.access.rights import assigned_roles, unknown_role
from web.models import MOST_ROLES, RoleAssignment


class Command(BaseCommand):
    help = "Assign roles to a user, or take them away, and print those that are assigned then."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user")
        parser.add_argument("roles", nargs="*", metavar="ROLE")
        parser.add_argument("--revoke", action="store_true", help="Take these away instead.")

    @transaction.atomic
    def handle(self, *_: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["user"]).first()
        if user is None:
            raise CommandError(f"There is no user {options['user']!a}; make_token makes one.")
        if options["revoke"]:
            RoleAssignment.objects.filter(user=user, role__in=options["roles"]).delete()
        elif wrong := [fault for role in options["roles"] if (fault := unknown_role(role))]:
            raise CommandError(" ".join(wrong))
        else:
            for role in options["roles"]:
                RoleAssignment.objects.get_or_create(user=user, role=role)
            if len(assigned_roles(user)) > MOST_ROLES:
                raise CommandError(f"A user is assigned at most {MOST_ROLES} roles.")
        self.stdout.write("\n".join(assigned_roles(user)) or "none: OSMO_DEFAULT_ROLES hold")
