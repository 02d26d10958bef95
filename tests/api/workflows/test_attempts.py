"""A group in its second attempt: over REST, on its page, in the list."""

from datetime import timedelta

import pytest
from django.utils import timezone

from osmo_topology_cli.explain import explain
from tests.builders.gangs import set_frozen
from tests.factories import TaskGroupFactory
from workflows.group_reads import GroupRange
from workflows.models import Attempt, TaskGroup

pytestmark = pytest.mark.django_db


@pytest.fixture
def group():
    """A group that ran, was preempted, and waits for room again."""
    group = TaskGroupFactory(pods=2, status="RUNNING")
    now = timezone.now()
    Attempt.objects.create(
        group=group,
        number=1,
        status="FAILED_PREEMPTED",
        loss="preempted",
        evidence="eviction_event",
        message="Task t0: it was preempted.",
        counted=False,
        began_at=now - timedelta(minutes=3),
        start_time=now - timedelta(minutes=2),
        end_time=now - timedelta(minutes=1),
        cleared_at=now,
        nodes=["n0", "n1"],
    )
    TaskGroup.objects.filter(pk=group.pk).update(
        attempt_number=2,
        progress="SCHEDULING",
        attempt_began_at=now - timedelta(minutes=1),
        waiting_why="capacity",
        waiting_reason="Attempt 2 waits. There is no room.",
    )
    return group


def read(api, group):
    answer = api.get(f"/api/workflow/{group.workflow.name}")
    assert answer.status_code == 200, answer.json()
    return answer.json()["groups"][0]


def test_its_status_stays_and_its_attempts_tell_the_rest(api, group):
    shown = read(api, group)
    assert (shown["status"], shown["attempt"]) == ("RUNNING", 2)
    first, second = shown["attempts"]
    assert (first["number"], first["status"], first["cause"]) == (1, "FAILED_PREEMPTED", "preempted")
    assert first["nodes"] == ["n0", "n1"]
    assert (second["number"], second["status"], second["cause"]) == (2, "SCHEDULING", None)


def test_the_response_to_the_next_loss_and_the_avoided_nodes_are_explained(api, group):
    TaskGroup.objects.filter(pk=group.pk).update(avoided_nodes=["n1"])
    set_frozen(group, recovery={"preempted": "requeue", "node_lost": "requeue", "most": 2})
    address = f"/api/workflow/{group.workflow.name}"
    workflow, explanation = api.get(address).json(), api.get(f"{address}/explain").json()
    (waits,) = explanation["groups"]
    assert waits["recovery"] == "preempted: requeue, node lost: requeue, failed: fail, at most 2"
    assert waits["avoided_nodes"] == workflow["groups"][0]["avoided_nodes"] == ["n1"]
    (shown,) = explain(workflow, {waits["group"]: waits})
    assert "SCHEDULING (attempt 2)" in shown.heading
    assert f"When it loses a task: {waits['recovery']}." in shown.sentences
    assert "Attempt 2 avoids n1, where tasks were lost." in shown.sentences
    (attempts,) = [table for table in shown.tables if table.title == "Attempts"]
    assert [row[:3] for row in attempts.rows] == [
        ("1", "FAILED_PREEMPTED", "preempted"),
        ("2", "SCHEDULING", "-"),
    ]


def test_of_many_attempts_the_last_hundred_are_read(api, group):
    (first,) = Attempt.objects.filter(group=group)
    values = {"group": group, "status": "FAILED", "loss": "failed", "counted": True}
    times = {"began_at": first.began_at, "end_time": first.end_time}
    Attempt.objects.bulk_create(Attempt(number=n, **values, **times) for n in range(2, 121))
    TaskGroup.objects.filter(pk=group.pk).update(attempt_number=121)
    ((row,),) = GroupRange(workflow=group.workflow, offset=0, limit=None, every_try=False).batches()
    assert [attempt.number for attempt in row.attempts.all()] == list(range(22, 121))
    assert [attempt["number"] for attempt in read(api, group)["attempts"]] == list(range(22, 122))


def test_a_group_in_its_first_attempt_has_one(api):
    group = TaskGroupFactory(pods=1, status="RUNNING")
    shown = read(api, group)
    assert (shown["attempt"], [entry["number"] for entry in shown["attempts"]]) == (1, [1])


def test_the_explanation_names_the_attempt(api, group):
    answer = api.get(f"/api/workflow/{group.workflow.name}/explain").json()
    assert "Attempt 2 waits." in answer["sentence"]
