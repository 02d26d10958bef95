"""The consistency checks that were requested over REST."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class ConsistencyCheck(models.Model):
    """One requested check and its report; at most one is unfinished at a time."""

    requested_by = models.CharField(max_length=150)
    requested_at = models.DateTimeField(db_default=Now())
    began_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    failure = models.TextField(blank=True, default="", db_default="")
    report = models.JSONField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                models.Value(1), condition=Q(ended_at=None), name="consistencycheck_unfinished"
            )
        ]

    def __str__(self) -> str:
        return f"consistency check {self.pk}"
