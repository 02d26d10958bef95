"""A group whose room is taken as soon as it has it: named, paused for longer and longer, and ended."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from pools import conditions
from pools.values.recovery import RecoveryPolicy, Response
from tests.builders.gangs import native_gang, recovering_gang, set_frozen
from tests.builders.losses import delete_pod, disrupt, lose_nodes
from tests.builders.workloads import admit, evict_workload, kueue_world, queued_gang
from tests.worker.world import World, fresh, statuses
from workflows.lifecycle import attempts_in_vain
from workflows.lifecycle.statuses import TERMINAL
from workflows.models import Attempt, TaskGroup
from workflows.services.gauges import read

FIRST = 16.0
UNRECOVERED = RecoveryPolicy(backoff_first=FIRST, backoff_limit=100.0)
AGAIN = RecoveryPolicy(preempted=Response.REQUEUE, backoff_first=FIRST, backoff_limit=100.0)
UNGATED = {"scheduler_type": "default", "scheduler_name": "default-scheduler"}
WORDS = "reempt"


@dataclass(frozen=True, kw_only=True)
class Loop:
    """How a gang begins, gets its room, and loses it at once."""

    begin: Callable
    take: Callable
    world: Callable = World
    words: str = WORDS


def take_pods(world, group):
    disrupt(world, group, 0, 1)


def take_room(world, group):
    admit(world, "n-1", "n-2")
    world.settle()
    assert statuses(group) == ["RUNNING"] * 2
    evict_workload(world)


def take_room_before_pods(world, group):
    """Kueue does not find the node by the name that it has assigned."""
    admit(world, "n-1", "n-2")
    evict_workload(world, "NodeFailures", "Workload eviction triggered by n-1 failure")


def native(world):
    group = native_gang(world, pods=2, policy=AGAIN)
    world.settle()
    return group


LOOPS = {
    "kai": Loop(begin=lambda world: recovering_gang(world, pods=2, policy=AGAIN), take=take_pods),
    "kubernetes": Loop(begin=native, take=take_pods),
    "default": Loop(
        begin=lambda world: recovering_gang(world, pods=2, policy=AGAIN, pool=world.pool(backend=UNGATED)),
        take=take_pods,
    ),
    "kueue": Loop(begin=lambda world: queued_gang(world, policy=AGAIN), take=take_room, world=kueue_world),
    "kueue, before pods": Loop(
        begin=lambda world: queued_gang(world, policy=UNRECOVERED),
        take=take_room_before_pods,
        world=kueue_world,
        words="NodeFailures: Workload eviction triggered by n-1 failure",
    ),
}


@pytest.fixture(params=LOOPS)
def loop(request):
    return LOOPS[request.param]


@pytest.fixture
def world(db, loop):
    return loop.world()


def lose(loop, world, group):
    """The group loses its room once more; returns the pause that follows, in seconds."""
    loop.take(world, group)
    world.settle()
    row = fresh(group)
    begins = row.attempt_not_before
    return round((begins - row.attempt_began_at).total_seconds()) if begins else 0


def end_pause(world, group):
    TaskGroup.objects.filter(pk=group.pk, attempt_not_before__isnull=False).update(
        attempt_not_before=timezone.now() - timedelta(seconds=1)
    )
    world.settle()


def no_progress(group):
    return conditions.find(fresh(group).conditions, "NoProgress")


def warn(group, *, hours=1):
    """The group has had the condition for so long."""
    row = fresh(group)
    entry = conditions.find(row.conditions, "NoProgress")
    entry["lastTransitionTime"] = f"{timezone.now() - timedelta(hours=hours):%Y-%m-%dT%H:%M:%S}"
    TaskGroup.objects.filter(pk=group.pk).update(conditions=row.conditions)


def lose_again(loop, world, group, *, times):
    pauses = []
    for _ in range(times):
        end_pause(world, group)
        pauses.append(lose(loop, world, group))
    return pauses


def test_each_attempt_in_vain_is_followed_by_a_longer_pause(loop, world):
    group = loop.begin(world)
    assert lose_again(loop, world, group, times=5) == [0, 16, 32, 64, 100]
    assert Attempt.objects.filter(group=group).count() == 5


def test_the_third_in_a_row_is_a_condition_and_a_reason_that_name_what_took_the_room(loop, world):
    group = loop.begin(world)
    lose_again(loop, world, group, times=2)
    assert no_progress(group) is None
    assert fresh(group).waiting_why == "attempt_before"
    lose_again(loop, world, group, times=1)
    condition, row = no_progress(group), fresh(group)
    assert (condition["status"], condition["reason"]) == ("True", "AttemptsInVain")
    first = Attempt.objects.filter(group=group).earliest("number").end_time
    assert (
        f"3 attempts in a row ended in vain, the first at {first:%Y-%m-%dT%H:%M:%S} UTC"
        in condition["message"]
    )
    assert loop.words in condition["message"]
    assert row.waiting_why == "no_progress"
    assert f"begins at {row.attempt_not_before:%Y-%m-%dT%H:%M:%S} UTC" in row.waiting_reason
    assert loop.words in row.waiting_reason


def test_a_group_whose_attempts_are_all_in_vain_ends(loop, world, monkeypatch):
    monkeypatch.setattr(attempts_in_vain, "MOST_IN_VAIN", 4)
    group = loop.begin(world)
    lose_again(loop, world, group, times=3)
    warn(group)
    lose_again(loop, world, group, times=1)
    row = fresh(group)
    assert row.status in ("FAILED_PREEMPTED", "FAILED_BACKEND_ERROR")
    assert row.released_at is not None
    assert "4 attempts in a row ended in vain" in row.failure_message
    assert loop.words in row.failure_message


@pytest.mark.parametrize("loop", [LOOPS["kai"]])
def test_an_attempt_that_runs_for_a_minute_takes_the_condition_back(loop, world):
    group = loop.begin(world)
    lose_again(loop, world, group, times=3)
    end_pause(world, group)
    assert no_progress(group)["status"] == "True"
    began = timezone.now() - timedelta(seconds=61)
    TaskGroup.objects.filter(pk=group.pk).update(ran_since=began)
    group.tasks.filter(latest=True).update(start_time=began)
    world.settle()
    assert (no_progress(group)["status"], no_progress(group)["reason"]) == ("False", "Progressed")
    assert lose(loop, world, group) == 0
    assert no_progress(group)["status"] == "False"


@pytest.mark.parametrize("loop", [LOOPS["kai"]])
def test_a_running_group_is_looked_at_as_soon_as_it_has_made_progress(loop, world):
    group = loop.begin(world)
    lose_again(loop, world, group, times=3)
    end_pause(world, group)
    row = fresh(group)
    assert row.next_reconcile_at <= row.ran_since + timedelta(seconds=61)


@pytest.mark.parametrize("loop", [LOOPS["kai"]])
def test_what_a_policy_counts_ends_the_group_no_later(loop, world):
    group = recovering_gang(world, policy=replace(AGAIN, most_preemptions=1), pods=2)
    lose_again(loop, world, group, times=2)
    assert "tried again 1 time before" in fresh(group).failure_message


@pytest.mark.parametrize("loop", [LOOPS["kai"]])
def test_deletions_that_nothing_explains_count_for_ten_minutes(loop, world):
    group = loop.begin(world)
    lose_again(loop, world, group, times=1)
    end_pause(world, group)
    group.tasks.filter(latest=True).update(start_time=timezone.now() - timedelta(seconds=300))
    delete_pod(world, group)
    world.settle()
    row = fresh(group)
    assert round((row.attempt_not_before - row.attempt_began_at).total_seconds()) == 16


def replaced_alone(world, **policy):
    """A gang of which each lost task is tried again alone, while its peers run on."""
    words = {"preempted": Response.TASK, "backoff_first": FIRST, "backoff_limit": 100.0}
    return recovering_gang(world, policy=RecoveryPolicy(**words | policy))


def take_node(world, group):
    """The second task loses its node, once its pause is over."""
    group.tasks.filter(latest=True, position=1, status="PROCESSING").update(
        processing_start_time=timezone.now() - timedelta(seconds=101)
    )
    world.settle()
    disrupt(world, group, 1)
    world.settle()


def lose_one(world, group):
    """The second task loses its node; returns the pause before its next try, in seconds."""
    take_node(world, group)
    task = group.tasks.get(position=1, latest=True)
    if task.status == "RUNNING":
        return 0
    text = fresh(group).waiting_reason.partition("is tried again at ")[2].partition(" UTC")[0]
    until = datetime.fromisoformat(text).replace(tzinfo=UTC)
    return (until - task.processing_start_time).total_seconds()


@pytest.mark.parametrize("loop", [LOOPS["kai"]])
def test_a_task_that_is_replaced_alone_in_vain_pauses_beside_its_peers(loop, world):
    group = replaced_alone(world)
    pauses = [lose_one(world, group) for _ in range(5)]
    assert pauses == pytest.approx([0, 0, 16, 32, 64], abs=1)
    row = fresh(group)
    assert (row.attempt_number, statuses(group)) == (1, ["RUNNING", "PROCESSING", "RUNNING"])
    assert row.waiting_why == "no_progress"
    assert "4 replacements in a row ended in vain" in row.waiting_reason
    assert no_progress(group)["status"] == "True"
    assert "4 replacements in a row ended in vain" in no_progress(group)["message"]
    assert read()["osmo_no_progress_groups"] == [(1, group.backend.name)]


@pytest.mark.parametrize("loop", [LOOPS["kai"]])
def test_a_task_whose_replacements_are_all_in_vain_ends_its_group(loop, world, monkeypatch):
    monkeypatch.setattr(attempts_in_vain, "MOST_IN_VAIN", 3)
    group = replaced_alone(world)
    TaskGroup.objects.filter(pk=group.pk).update(ignore_nonlead_status=False)
    for _ in range(5):
        take_node(world, group)
    assert fresh(group).status == "RUNNING"
    warn(group)
    take_node(world, group)
    row = fresh(group)
    assert (row.status, row.released_at is not None) == ("FAILED_PREEMPTED", True)
    assert "4 replacements in a row ended in vain" in row.failure_message


@pytest.mark.parametrize("loop", [LOOPS["kai"]])
def test_a_program_that_fails_each_time_is_no_replacement_in_vain(loop, world, monkeypatch):
    monkeypatch.setattr(attempts_in_vain, "MOST_IN_VAIN", 3)
    group = replaced_alone(world, failed=Response.TASK, most=50)
    TaskGroup.objects.filter(pk=group.pk).update(ignore_nonlead_status=False)
    second = group.tasks.get(position=1).name
    for _ in range(6):
        world.finish(group, 1, tasks=[second])
        world.settle()
    assert statuses(group) == ["RUNNING"] * 3
    assert group.tasks.filter(position=1).count() == 7
    assert no_progress(group) is None


@pytest.mark.parametrize("loop", [LOOPS["kai"]])
def test_a_failure_of_the_program_interrupts_replacements_in_vain(loop, world):
    group = replaced_alone(world, failed=Response.TASK, most=50)
    TaskGroup.objects.filter(pk=group.pk).update(ignore_nonlead_status=False)
    assert [lose_one(world, group) for _ in range(2)] == [0, 0]
    world.finish(group, 1, tasks=[group.tasks.filter(position=1).first().name])
    world.settle()
    assert [lose_one(world, group) for _ in range(3)] == pytest.approx([0, 16, 32], abs=1)


@pytest.mark.parametrize("loop", [LOOPS["kai"]])
def test_an_attempt_that_ran_is_not_in_vain_whose_tasks_were_all_replaced_just_before(loop, world):
    group = replaced_alone(world, preempted=Response.REQUEUE, node_lost=Response.TASK)
    assert lose_again(loop, world, group, times=2) == [0, 16]
    end_pause(world, group)
    began = timezone.now() - timedelta(seconds=7200)
    group.tasks.filter(latest=True).update(start_time=began)
    for number in range(3):
        lose_nodes(world, group, number)
        world.settle()
    assert group.tasks.filter(latest=True, start_time__gt=began).count() == 3
    assert lose(loop, world, group) == 0
    assert Attempt.objects.filter(group=group).latest("number").start_time == began


@pytest.mark.parametrize("loop", [LOOPS["kai"]])
def test_no_group_ends_by_attempts_in_vain_without_an_hour_of_warning(loop, world, monkeypatch):
    monkeypatch.setattr(attempts_in_vain, "MOST_IN_VAIN", 3)
    group = loop.begin(world)
    lose_again(loop, world, group, times=4)
    assert fresh(group).status not in TERMINAL
    assert "an hour of this warning" in no_progress(group)["message"]
    warn(group, hours=0.9)
    lose_again(loop, world, group, times=1)
    assert fresh(group).status not in TERMINAL
    warn(group)
    lose_again(loop, world, group, times=1)
    assert "6 attempts in a row ended in vain" in fresh(group).failure_message


@pytest.mark.parametrize("loop", [LOOPS["kueue, before pods"]])
def test_a_group_without_recovery_gets_room_again_before_pods_and_what_runs_ends_with_its_loss(loop, world):
    group = loop.begin(world)
    set_frozen(group, attempts=False, recovery={})
    assert lose(loop, world, group) == 0
    assert fresh(group).attempt_number == 2
    admit(world, "n-3", "n-4")
    world.settle()
    assert statuses(group) == ["RUNNING"] * 2
    evict_workload(world)
    world.settle()
    assert (fresh(group).status, fresh(group).attempt_number) == ("FAILED_PREEMPTED", 2)
