"""The loop over the steps of a reconcile, with steps of its own."""

from datetime import timedelta

import pytest

from cluster.errors import ClusterUnreachable
from workflows.logs.archive import keep_before_delete
from workflows.models import Task, TaskGroup
from workflows.reconcile import run
from workflows.reconcile.turn import ReadAgain, Stop
from workflows.reconcile.view.leased import LeasedCluster
from workflows.reconcile.view.outcomes import RequeueAfter, Retry
from workflows.services.lease import take_lease


@pytest.fixture
def group(world):
    group = world.group(pods=2)
    world.settle()
    return group


@pytest.fixture
def steps(monkeypatch):
    """Put other steps into one of the tuples."""
    return lambda name, *functions: monkeypatch.setattr(run, name, functions)


def test_missing_pods_are_made_however_following_the_others_ends(world, group, steps):
    failed, later = Retry(trouble="It did not work."), RequeueAfter(seconds=7.0)
    steps("FOLLOW", lambda turn: Stop(turn, failed))
    steps("CREATE", lambda turn: Stop(turn, later))
    assert world.reconcile(group) == failed
    Task.objects.filter(group=group, name="task-0").update(status="PROCESSING")
    assert world.reconcile(group) == later


def test_what_a_step_learned_is_there_for_the_reason_although_the_next_one_failed(world, group, steps):
    def fail(turn):
        raise ClusterUnreachable("no route")

    steps("FOLLOW", lambda turn: turn.learn(paused="Later."), fail, lambda turn: turn.learn(paused=""))
    TaskGroup.objects.update(next_reconcile_at="2026-01-01T00:00Z")
    lease = take_lease(group.pk)
    reconciliation = run.Reconciliation(lease, LeasedCluster(world.cluster, lease), keep_before_delete)
    reconciliation.run()
    assert reconciliation.turn.learned.paused == "Later."


def test_a_turn_learns_nothing_from_the_turn_before(world, group, steps):
    turns = []

    def read_again(turn):
        turns.append(turn.learned.paused)
        return ReadAgain()

    steps("FOLLOW", lambda turn: turn.learn(paused=f"{turn.learned.paused}Later."), read_again)
    assert world.reconcile(group) == RequeueAfter(seconds=0.0)
    assert turns == ["Later."] * run.TURNS


@pytest.mark.parametrize(
    ("seconds", "due"),
    [([], 10.0), ([None, 4.0, 6.0], 4.0), ([20.0], 10.0), ([-3.0], 0.2)],
    ids=["no time", "the first one", "at most as long as it says", "a time that is over"],
)
def test_a_turn_stops_until_the_first_of_its_times(world, group, steps, seconds, due):
    def at(turn):
        times = (None if after is None else turn.view.now + timedelta(seconds=after) for after in seconds)
        return turn.at(*times)

    steps("FOLLOW", at, lambda turn: turn.due(within=10.0))
    assert world.reconcile(group) == RequeueAfter(seconds=due)
