"""Time that passes for a gang that waits, and the search for a place that follows it."""

from datetime import timedelta

from django.db.models import F

from workflows.models import Event, TaskGroup
from workflows.services import orders


def later(seconds):
    """Let the clock of patience have run for so much longer."""
    TaskGroup.objects.update(unplaced_since=F("unplaced_since") - timedelta(seconds=seconds))


def seek(world):
    """Seek a place for the gangs that wait."""
    assert orders.propose(world.uid, seconds=60) == 0


def wait_in_vain(world, seconds=3600):
    """Let the clock have run for so much longer, the last change lie as far back, and a place be sought."""
    later(seconds)
    Event.objects.update(time=F("time") - timedelta(seconds=seconds))
    seek(world)
