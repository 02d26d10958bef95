"""The consistency check of rows and clusters, as its command shows it."""

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.utils import timezone

from pools.clusters import connect
from pools.services.sync import sync_cluster
from tests.factories import installation
from tests.worker.world import World
from workflows.models import TaskGroup


def checked_world(monkeypatch):
    """A world whose cluster the checker reaches."""
    installation()
    world = World()
    monkeypatch.setattr(connect, "connect", lambda *args: world.cluster)
    return world


def check(*options):
    """The exit code and what was printed."""
    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("doctor", "--json", *options, stdout=out, stderr=out)
    return ended.value.code, json.loads(out.getvalue()) if out.getvalue().startswith("{") else out.getvalue()


def findings(*options):
    """The findings of a check of a system at rest."""
    code, report = check("--grace", "0", *options)
    rules = [(finding["kind"], finding["rule"]) for finding in report["findings"]]
    assert code == (1 if rules else 0)
    return rules


def rest(world):
    """Bring everything to where nothing is due, as beat and workers would."""
    sync_cluster(world.uid)
    TaskGroup.objects.filter(released_at=None).update(next_reconcile_at=timezone.now() + timedelta(minutes=1))
