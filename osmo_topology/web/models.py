"""What belongs to a user: personal tokens, named, hashed and expiring, and a profile."""

from django.contrib.auth.models import User
from django.db import models
from knox.models import AbstractAuthToken


class PersonalToken(AbstractAuthToken):
    """Only a digest is stored; the token itself is shown once, when it is made."""

    name = models.CharField(max_length=63, blank=True, default="")

    class Meta:
        swappable = "KNOX_TOKEN_MODEL"
        ordering = ["user_id", "created"]


class Profile(models.Model):
    """What a user has chosen: the pool that commands without one go to."""

    user = models.OneToOneField(User, on_delete=models.CASCADE, related_name="profile", primary_key=True)
    pool = models.CharField(max_length=63, blank=True, default="")

    def __str__(self) -> str:
        return str(self.user)
