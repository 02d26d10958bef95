"""Personal tokens: named, hashed and expiring; a user has as many as they like."""

from django.db import models
from knox.models import AbstractAuthToken


class PersonalToken(AbstractAuthToken):
    """Only a digest is stored; the token itself is shown once, when it is made."""

    name = models.CharField(max_length=63, blank=True, default="")

    class Meta:
        swappable = "KNOX_TOKEN_MODEL"
        ordering = ["user_id", "created"]
