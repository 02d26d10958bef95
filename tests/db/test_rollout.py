"""Web waits for workers of its release; a migration takes one step at a time."""

import json
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from web.env import REFUSED
from web.management.commands import migrate
from web.models import InstalledRelease
from web.operation import health, rollout

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nobody_was_ready():
    rollout._waited.clear()
    yield
    rollout._waited.clear()


def worked(version, seconds_ago):
    InstalledRelease.objects.update_or_create(
        version=version, defaults={"worked_at": timezone.now() - timedelta(seconds=seconds_ago)}
    )


REPORTS = {
    "nobody has reported": ({}, False),
    "its own worker has": ({"1.2.0": 5}, True),
    "its own worker has, long ago, and nobody since": ({"1.2.0": 90_000}, True),
    "an older one alone": ({"1.1.0": 5}, False),
    "an older one now, its own before a rollback": ({"1.1.0": 5, "1.2.0": 3600}, False),
    "both, in the middle of an upgrade": ({"1.1.0": 1, "1.2.0": 15}, True),
    "a later one, as after an upgrade or before a rollback": ({"1.3.0": 5, "1.2.0": 3600}, True),
    "a later one by its number, not by its letters": ({"1.10.0": 5}, True),
}


@pytest.mark.parametrize("case", REPORTS)
def test_web_waits_for_a_worker_of_its_release_or_a_later_one(case):
    reports, ready = REPORTS[case]
    for version, seconds_ago in reports.items():
        worked(version, seconds_ago)
    assert rollout.have_workers("1.2.0") is ready


def test_a_web_that_was_ready_stays_so_while_only_older_workers_report(monkeypatch):
    monkeypatch.setattr(rollout, "VERSION", "1.2.0")
    worked("1.2.0", 3600)
    assert rollout.workers() == []
    worked("1.1.0", 1)
    assert rollout.workers() == []
    rollout._waited.clear()  # as in a process that has just begun
    (status,) = rollout.workers()
    assert status.needed
    assert status.line == "no worker of release 1.2.0 or a later one has reported yet"


@pytest.mark.django_db(transaction=True)  # the probe has a connection of its own
def test_readyz_is_unavailable_until_a_worker_reports(client, monkeypatch):
    InstalledRelease.objects.all().delete()
    monkeypatch.setattr(health, "_probes", {})
    health.register("workers", rollout.workers, needed=True)
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert "no worker of release" in json.loads(answer.content)["workers"]
    rollout.report_worker()
    assert client.get("/readyz").status_code == 200


STEPS = {
    ("1.2.0", "1.2.3"): True,
    ("1.2.3", "1.2.0"): True,
    ("1.2.0", "1.3.0"): True,
    ("1.3.0", "1.2.0"): True,
    ("1.9.0", "2.0.0"): True,
    ("2.0.0", "1.9.0"): True,
    ("1.2.0", "1.4.0"): False,
    ("1.4.0", "1.2.0"): False,
    ("1.2.0", "2.1.0"): False,
    ("1.0.0", "3.0.0"): False,
    ("1.9.0", "1.10.0"): True,
}


@pytest.mark.parametrize(("present", "own"), STEPS)
def test_a_migration_takes_one_minor_release_at_a_time(present, own):
    InstalledRelease.objects.all().delete()
    InstalledRelease.objects.create(version=present, migrated_at=timezone.now())
    refusal = rollout.refused_step(own)
    assert (refusal == "") is STEPS[present, own]
    assert not refusal or (present in refusal and own in refusal)


def test_a_refused_migration_changes_nothing_and_a_good_one_is_noted(monkeypatch):
    InstalledRelease.objects.all().delete()
    InstalledRelease.objects.create(version="7.0.0", migrated_at=timezone.now())
    with pytest.raises(CommandError, match="go back one release at a time") as refusal:
        call_command("migrate", verbosity=0)
    assert refusal.value.returncode == REFUSED
    assert [release.version for release in InstalledRelease.objects.all()] == ["7.0.0"]
    InstalledRelease.objects.all().delete()
    call_command("migrate", verbosity=0)
    (release,) = InstalledRelease.objects.all()
    assert (release.version, release.worked_at) == (rollout.VERSION, None)
    assert release.migrated_at is not None
    assert migrate.VERSION == rollout.VERSION
