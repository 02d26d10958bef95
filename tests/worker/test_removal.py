"""An installation is not removed while it has work in a cluster, unless that is ended first."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError

from pools import tasks
from pools.models import Backend, ConfigRevision, Installation, Pool
from tests.factories import installation
from tests.fakes.kai import reached_through
from tests.fakes.kinds import KAI_QUEUE
from tests.worker.world import fresh, workflow_of
from workflows.management.commands import prepare_removal


@pytest.fixture
def workers(world, monkeypatch):
    """Workers do their part while the command waits."""
    installation()

    def work(seconds):
        world.settle()
        tasks.sync_cluster(world.uid)

    monkeypatch.setattr(prepare_removal.time, "sleep", work)
    with reached_through({"": world.cluster}):
        yield work


def prepare(*arguments):
    out = StringIO()
    call_command("prepare_removal", *arguments, stdout=out)
    return out.getvalue()


def test_a_removal_is_refused_while_task_groups_are_unreleased(world):
    group = world.group()
    world.settle()
    name = group.backend.name
    with pytest.raises(CommandError, match=f"1 unreleased task groups on backend {name}.*cleanup.enabled"):
        prepare()
    assert fresh(group).status == "RUNNING"
    assert world.pods()


def test_a_removal_may_begin_when_everything_is_released_and_names_what_stays(world, workers):
    group = world.group()
    world.settle()
    world.finish(group)
    world.settle()
    assert f"queues, topologies and priorities of backend {group.backend.name}" in prepare()


def test_cleaning_ends_all_work_and_leaves_nothing_in_the_cluster(world, workers):
    group = world.group()
    workers(0)
    assert world.cluster.names(KAI_QUEUE)
    assert prepare("--clean") == ""
    assert (workflow_of(group).status, workflow_of(group).cancelled_by) == ("FAILED_CANCELED", "removal")
    assert (world.pods(), world.cluster.names(KAI_QUEUE)) == ([], [])
    assert not Pool.objects.exists()
    assert not Backend.objects.filter(cleaned_at=None).exists()
    assert ConfigRevision.objects.filter(username="removal").exists()


def test_a_wait_that_is_too_long_ends_with_what_is_left(world, monkeypatch):
    world.group()
    world.settle()
    monkeypatch.setattr(prepare_removal.time, "sleep", lambda _: None)
    with pytest.raises(CommandError, match="Still left in the clusters: 1 unreleased"):
        prepare("--clean", "--seconds", "0")


def test_declared_pools_stay_because_their_file_would_bring_them_back(world, workers):
    world.group()
    workers(0)
    Installation.objects.update(declared={"condition": {"status": "True"}})
    assert "queues, topologies and priorities" in prepare("--clean")
    assert Pool.objects.exists()
    assert world.pods() == []


def test_an_installation_that_never_began_may_be_removed(db, monkeypatch):
    monkeypatch.setattr(prepare_removal.connection.introspection, "table_names", list)
    assert "no work to end" in prepare()


def test_nobody_removes_what_a_database_that_is_away_may_know_of(db, monkeypatch):
    def away():
        raise OperationalError("connection refused")

    monkeypatch.setattr(prepare_removal.connection.introspection, "table_names", away)
    with pytest.raises(CommandError, match=r"PostgreSQL does not answer.*--no-hooks"):
        prepare()
