"""Workers that die: in a call or at a crash point, with the lease that they held."""

import sys
from contextlib import ExitStack, contextmanager
from unittest import mock

import pytest
from django.utils import timezone

from web import crashpoints
from workflows.models import TaskGroup


class Killed(BaseException):
    """What a SIGKILL looks like from inside: nothing after it runs."""


@contextmanager
def at_crash_point(point, act):
    """Call ``act`` whenever this crash point is reached, in whatever module it stands."""

    def reached(name):
        if name == point:
            act()

    modules = [m for m in sys.modules.values() if vars(m).get("reached") is crashpoints.reached]
    with ExitStack() as patches:
        for module in modules:
            patches.enter_context(mock.patch.object(module, "reached", reached))
        yield


@contextmanager
def death_at(point):
    """The worker that acts within dies at this crash point, and its lease runs out."""

    def die():
        raise Killed

    with at_crash_point(point, die), pytest.raises(Killed):
        yield
    expire_leases()


def expire_leases():
    """Let the leases of dead workers run out."""
    TaskGroup.objects.exclude(lease_token=None).update(lease_until=timezone.now())
