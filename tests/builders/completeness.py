"""What the observer says of a cluster's kinds of objects, in the rows."""

from django.utils import timezone

from pools.models import Cluster
from pools.values.completeness import Completeness, merged


def note_lists(problems, *, cluster=None, at=None, **more):
    """Write of one cluster or all why each kind is not known: empty if it was listed, None for unknown."""
    rows = Cluster.objects.filter(pk=cluster.pk) if cluster else Cluster.objects.all()
    rows.update(completeness=merged(problems, now=at or timezone.now()), **more)
    if cluster:
        cluster.refresh_from_db()


def completeness(kind):
    """What the row of the one cluster says of a kind."""
    return Completeness.of(Cluster.objects.get().completeness, kind)
