"""No status is for ever: a group that does not move on ends, or there is a reason why it need not."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from uuid import UUID

import pytest

from tests.unit.lifecycle.values import placement
from workflows.lifecycle.statuses import LIVE_ORDER, TERMINAL, TaskStatus
from workflows.models import TaskGroup
from workflows.reconcile.assess.deadlines import next_deadline, timed_out
from workflows.reconcile.assess.follow import ObservedPods, follow
from workflows.reconcile.view.group_view import GroupView, TaskView
from workflows.values.observation import PodSeen

SINCE = datetime(2026, 1, 1, 12, tzinfo=UTC)
WITHOUT_DEADLINE = {
    TaskStatus.SUBMITTING: "The next reconciliation moves it on, without any cluster.",
    TaskStatus.WAITING: "It holds nothing and ends with its upstream groups, each of which has a deadline.",
}
"""Why a live status needs no deadline. A group that is PROCESSING gets its own with the first create that may
have been sent: before, it holds nothing, and waits for its cluster to be back."""
START_TIMEOUT = timedelta(minutes=30)
STARTS = {
    "processing_start_time": SINCE,
    "touched_at": SINCE,
    "scheduling_start_time": SINCE,
    "initializing_start_time": SINCE,
    "start_time": SINCE,
}


def view(group, *tasks, after=timedelta(seconds=1), reason="", **changes):
    """A group in a status since SINCE, its tasks in theirs, read so long after."""
    row = TaskGroup(
        pk=UUID(int=7), status=str(group), ignore_nonlead_status=True, waiting_reason=reason, **STARTS
    )
    members = tuple(
        TaskView(
            pk=number,
            task_uuid=UUID(int=100 + number),
            name=f"t{number}",
            retry_id=0,
            generation=0,
            first_retry=0,
            lead=number == 0,
            status=str(status),
            pod_name=f"p{number}",
            node_name="n1" if status in (TaskStatus.INITIALIZING, TaskStatus.RUNNING) else "",
            pod_ip="",
            scheduling_start_time=SINCE,
            initializing_start_time=SINCE if status == TaskStatus.INITIALIZING else None,
        )
        for number, status in enumerate(tasks or (group,))
    )
    return GroupView(
        row=row, placement=placement(**changes), backend=SimpleNamespace(), tasks=members, now=SINCE + after
    )


def pods(phase="Pending", **digest):
    seen = PodSeen(
        namespace="osmo",
        name="p0",
        uid="u",
        group_uuid=UUID(int=7),
        phase=phase,
        node_name="n1",
        pod_ip="",
        deleting=False,
        absent=False,
        digest=digest,
    )
    return ObservedPods(pods={"p0": seen}, gone_at={})


def ends(group):
    """The status that the group takes by the clock alone, with a pod that never changes; None if none."""
    if timeout := timed_out(group):
        return timeout[0]
    changes = follow(group, pods(), editable=lambda: True).changes
    statuses = [change.status for change in changes if getattr(change, "status", "") in TERMINAL]
    return TaskStatus(statuses[0]) if statuses else None


def test_a_running_group_whose_clock_stands_ends_all_the_same():
    """Its peers hold nodes while a task has none, in a first attempt too."""
    tasks = (TaskStatus.RUNNING, TaskStatus.SCHEDULING)
    deadline = next_deadline(view(TaskStatus.RUNNING, *tasks, attempts=True))
    assert deadline == SINCE + timedelta(seconds=placement().exec_timeout)
    waiting = view(TaskStatus.RUNNING, *tasks, attempts=True, after=deadline - SINCE + timedelta(seconds=1))
    assert timed_out(waiting)[0] == TaskStatus.FAILED_EXEC_TIMEOUT
    waiting.row.ran_seconds = 10.0
    assert next_deadline(waiting) == deadline - timedelta(seconds=10)


@pytest.mark.parametrize("status", LIVE_ORDER)
def test_every_live_status_has_a_deadline_or_a_reason_why_it_needs_none(status):
    deadline = next_deadline(view(status))
    if status in WITHOUT_DEADLINE:
        assert deadline is None
        return
    assert deadline is not None
    assert ends(view(status, after=deadline - SINCE - timedelta(seconds=1))) is None
    assert ends(view(status, after=deadline - SINCE + timedelta(seconds=1))) in TERMINAL


@pytest.mark.parametrize("status", LIVE_ORDER)
@pytest.mark.parametrize("group", LIVE_ORDER[2:])
def test_no_mix_of_a_group_and_its_tasks_is_for_ever(group, status):
    """A task tried again may be behind its group."""
    assert next_deadline(view(group, status)) is not None


def test_a_start_that_never_comes_ends_as_osmo_says_and_names_what_was_waited_for():
    reason = "NVLink domain osmo-7 has 1 of 2 nodes."
    late = view(TaskStatus.INITIALIZING, after=START_TIMEOUT, reason=reason)
    for observed in (pods(), pods("Unknown")):  # neither says when the pod was placed
        moves = follow(late, observed, editable=lambda: True).changes
        task, group = moves[0], moves[1]
        assert (task.status, task.code) == ("FAILED_START_TIMEOUT", 3005)
        assert group.status == "FAILED_START_TIMEOUT"
        assert reason in group.message


def test_a_start_has_the_time_that_was_configured_when_the_workflow_was_submitted():
    short = {"start_timeout": 60.0}
    assert next_deadline(view(TaskStatus.INITIALIZING, **short)) == SINCE + timedelta(seconds=60)
    assert ends(view(TaskStatus.INITIALIZING, after=timedelta(seconds=59), **short)) is None
    late = view(TaskStatus.INITIALIZING, after=timedelta(seconds=61), **short)
    assert ends(late) == "FAILED_START_TIMEOUT"


def test_time_without_a_look_at_the_pods_does_not_end_a_start():
    """The cluster may have been away while the containers started."""
    late = view(TaskStatus.INITIALIZING, after=START_TIMEOUT * 3)
    assert timed_out(late) is None
    assert follow(late, pods("Running"), editable=lambda: True).changes[0].status == "RUNNING"
    assert next_deadline(late) is None  # decided just now, so it is no reason to look again at once


def test_tasks_tried_again_before_the_group_ran_end_with_the_queue_timeout():
    again = view(TaskStatus.INITIALIZING, TaskStatus.SCHEDULING, queue_timeout=60.0)
    assert next_deadline(again) == SINCE + timedelta(seconds=60)
    late = view(TaskStatus.INITIALIZING, TaskStatus.SCHEDULING, after=timedelta(seconds=61))
    assert timed_out(late)[0] == TaskStatus.FAILED_QUEUE_TIMEOUT


def test_a_try_that_is_not_created_yet_has_the_queue_timeout_from_its_beginning():
    """Its group was INITIALIZING still when the try before failed."""
    group = view(TaskStatus.INITIALIZING, TaskStatus.PROCESSING, queue_timeout=60.0)
    for began, since in ((None, SINCE), (SINCE + timedelta(seconds=30), SINCE + timedelta(seconds=30))):
        fresh = group.tasks[0]._replace(scheduling_start_time=None, processing_start_time=began)
        again = replace(group, tasks=(fresh,))
        assert next_deadline(again) == since + timedelta(seconds=60)
        assert timed_out(again) is None
