"""The tables of access, and of releases.

Personal tokens, profiles, roles and their assignments, buckets of rate limits; which releases worked here.
"""

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models
from knox.models import AbstractAuthToken

from scheduling.errors import InvalidSpec
from web import policy

TOKEN_NAME_LENGTH = 63
ROLE_NAME_LENGTH = 128
MOST_ROLES = 100
"""Roles that a user may be assigned."""


class PersonalToken(AbstractAuthToken):
    """Only a digest is stored; the token itself is shown once, when it is made.

    ``made_with`` is the token with which it was made over REST, if it was made with one. Deleting a token
    deletes those that were made with it, and theirs.
    """

    name = models.CharField(max_length=TOKEN_NAME_LENGTH, blank=True, default="")
    made_with = models.ForeignKey(
        "self", on_delete=models.CASCADE, null=True, blank=True, related_name="descendants", editable=False
    )

    class Meta:
        swappable = "KNOX_TOKEN_MODEL"
        ordering = ["user_id", "created"]

    def __str__(self) -> str:
        return f"{self.name or 'a token'} of {self.user}"


class Profile(models.Model):
    """The choice of a user: the default pool."""

    user = models.OneToOneField(User, on_delete=models.CASCADE, related_name="profile", primary_key=True)
    pool = models.CharField(max_length=63, blank=True, default="")

    def __str__(self) -> str:
        return str(self.user)


_role_name = RegexValidator(
    rf"^(?:{policy.NAME.pattern})\Z",
    "A letter, then letters, digits, dots, dashes and underscores, the last a letter or a digit.",
)


class Role(models.Model):
    """A named list of statements; one with a built-in role's name takes its place, osmo-admin's excepted."""

    name = models.CharField(max_length=ROLE_NAME_LENGTH, unique=True, validators=[_role_name])
    description = models.TextField(blank=True, default="")
    policies = models.JSONField(
        default=list,
        help_text='[{"actions": ["workflow:*"], "resources": ["pool/train"]}]',
    )

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(condition=~models.Q(name=policy.ADMIN), name="role_admin_is_built_in")
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        """Refuse policies that the decision could not read."""
        try:
            statements = policy.read_statements(self.policies)
        except InvalidSpec as error:
            raise ValidationError({"policies": error.message}) from error
        if fault := policy.fault_of_size(statements):
            raise ValidationError({"policies": fault})


class RoleAssignment(models.Model):
    """A user holds a role, by its name: built-in roles and those of the convention have no row."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="role_assignments", db_index=False)
    role = models.CharField(max_length=ROLE_NAME_LENGTH, validators=[_role_name])

    class Meta:
        ordering = ["user_id", "role"]
        constraints = [models.UniqueConstraint(fields=["user", "role"], name="role_once_per_user")]

    def __str__(self) -> str:
        return f"{self.user}: {self.role}"


class ProviderIdentity(models.Model):
    """Whom an identity of the identity provider is here; ``subject`` is the claim ``sub``."""

    issuer = models.CharField(max_length=255)
    subject = models.CharField(max_length=255)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="identities")
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["user_id", "issuer", "subject"]
        verbose_name_plural = "provider identities"
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="identity_of_one_user")]

    def __str__(self) -> str:
        return f"{self.user}: {self.subject}"


class RateBucket(models.Model):
    """How much of a limit one caller has used: the moment at which the bucket is empty again.

    A row whose moment has passed means the same as no row, and may be deleted at any time.
    """

    key = models.CharField(max_length=255, primary_key=True)
    clear_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.key


class InstalledRelease(models.Model):
    """A release that worked here: when it migrated the database, and when a worker of it last reported."""

    version = models.CharField(max_length=32, primary_key=True)
    migrated_at = models.DateTimeField(null=True)
    worked_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.version
