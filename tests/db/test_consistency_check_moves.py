"""Consistency checks of the release before, whose table was one of app ``workflows``, are all kept."""

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from doctor.models import ConsistencyCheck

BEFORE = [("doctor", None), ("workflows", "0014_notifications_field")]


def migrate(targets):
    executor = MigrationExecutor(connection)
    return executor.migrate(targets).apps


@pytest.fixture
def newest():
    return MigrationExecutor(connection).loader.graph.leaf_nodes()


def test_an_upgrade_keeps_every_row_and_the_release_before_still_reads_the_table(transactional_db, newest):
    previous = migrate(BEFORE).get_model("workflows", "AuditRun")
    try:
        row = previous.objects.create(asked_by="root", ended_at=timezone.now(), report={"exit_code": 0})
    finally:
        migrate(newest)

    check = ConsistencyCheck.objects.get()
    assert (check.pk, check.asked_by, check.report) == (row.pk, "root", {"exit_code": 0})
    requested = ConsistencyCheck.objects.create(asked_by="ann")
    assert list(previous.objects.order_by("pk").values_list("asked_by", flat=True)) == ["root", "ann"]
    assert requested.pk > row.pk
