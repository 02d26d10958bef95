"""``manage.py link_identity USER SUBJECT``: let an identity of the identity provider be an existing user."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError

from web.models import ProviderIdentity


class Command(BaseCommand):
    help = "Link the subject (claim sub) of an identity to a user who exists here, and print their subjects."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user")
        parser.add_argument("subject", nargs="?")

    def handle(self, *_: Any, **options: Any) -> None:
        if (provider := settings.IDENTITY_PROVIDER) is None:
            raise CommandError("There is no identity provider: set OSMO_OIDC_ISSUER.")
        user = User.objects.filter(username=options["user"]).first()
        if user is None:
            raise CommandError(f"There is no user {options['user']!a}; the first login makes one.")
        if subject := options["subject"]:
            identity, _new = ProviderIdentity.objects.get_or_create(
                issuer=provider.issuer, subject=subject, defaults={"user": user}
            )
            if identity.user != user:
                raise CommandError(
                    f"This identity is {identity.user.get_username()!a}; remove that link first."
                )
        subjects = user.identities.filter(issuer=provider.issuer).values_list("subject", flat=True)
        self.stdout.write("\n".join(subjects) or "none")
