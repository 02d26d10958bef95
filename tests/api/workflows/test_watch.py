"""Watching a workflow: what its events say, when they come, and how many may watch at a time."""

import json

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from tests.answers import content_of
from tests.error_shape import assert_error_shape
from tests.factories import TaskGroupFactory
from web.models import Role, RoleAssignment
from workflows import state_feed
from workflows.api import watch
from workflows.logs import slots
from workflows.models import Task, TaskGroup, Workflow

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def no_place_taken(monkeypatch):
    """Places are of the process: what other tests still hold is none of these tests' business."""
    monkeypatch.setattr(state_feed, "READ_SECONDS", 0.05)
    slots.WATCHING._used.clear()
    yield
    slots.WATCHING._used.clear()


def limited(settings, **values):
    settings.ENV = settings.ENV.model_copy(update=values)


def ask(api, group, **headers):
    return api.get(f"/api/workflow/{group.workflow.name}/watch", **headers)


def events_of(answer, *, pieces=None):
    """The events as (name, data, id)."""
    assert answer.status_code == 200, answer.content
    blocks = content_of(answer, pieces=pieces).decode().split("\n\n")
    fields = [dict(line.split(": ", 1) for line in block.splitlines()) for block in blocks if block]
    return [(event["event"], json.loads(event["data"]), event.get("id")) for event in fields]


def release(group):
    Task.objects.filter(group=group).update(status="COMPLETED")
    TaskGroup.objects.filter(pk=group.pk).update(status="COMPLETED", released_at=timezone.now())
    Workflow.objects.filter(pk=group.workflow_id).update(status="COMPLETED")


def after_each_read(monkeypatch, *steps):
    """Do the next step each time when the rows have been read."""
    todo, real = list(steps), watch._feed._read

    def read(workflows):
        states = real(workflows)
        if todo:
            todo.pop(0)()
        return states

    monkeypatch.setattr(watch._feed, "_read", read)


def test_a_watcher_gets_each_change_of_status_placement_and_reason_and_then_the_end(api, monkeypatch):
    group = TaskGroupFactory(name="g", status="SCHEDULING", pods=2)

    def wait():
        TaskGroup.objects.update(waiting_reason="There is no room.", waiting_since=timezone.now())

    def run():
        first, second = Task.objects.filter(group=group)
        Task.objects.filter(pk=first.pk).update(status="RUNNING", node_name="node-b")
        Task.objects.filter(pk=second.pk).update(status="RUNNING", node_name="node-a")
        TaskGroup.objects.update(status="RUNNING", waiting_reason="", waiting_since=None)
        Workflow.objects.update(status="RUNNING")

    after_each_read(monkeypatch, wait, run, lambda: release(group))
    *events, end = events_of(ask(api, group))
    assert [data["status"] for _, data, _ in events] == ["PENDING", "PENDING", "RUNNING", "COMPLETED"]
    states = [data["groups"][0] for _, data, _ in events]
    assert [state["status"] for state in states] == ["SCHEDULING", "SCHEDULING", "RUNNING", "COMPLETED"]
    assert [state["waiting_reason"] for state in states] == [None, "There is no room.", None, None]
    assert [state["nodes"] for state in states] == [[], [], ["node-a", "node-b"], ["node-a", "node-b"]]
    assert states[2]["task_counts"] == {"RUNNING": 2}
    assert states[3]["released_at"] is not None
    assert end == ("end", {"removed": False}, None)


def test_what_changes_nothing_that_is_watched_gives_no_event(api, monkeypatch, settings):
    limited(settings, log_follow_seconds=1)
    group = TaskGroupFactory(pods=1)
    after_each_read(monkeypatch, lambda: TaskGroup.objects.update(notifications=7, failures=1))
    assert [name for name, *_ in events_of(ask(api, group))] == ["state"]


def test_a_state_that_the_caller_has_is_not_sent_again(api, settings):
    limited(settings, log_follow_seconds=1)
    group = TaskGroupFactory(pods=1)
    ((_, _, version),) = events_of(ask(api, group), pieces=1)
    assert events_of(ask(api, group, headers={"Last-Event-ID": version})) == []


def test_a_watch_of_what_is_over_is_its_state_and_the_end(api):
    group = TaskGroupFactory(pods=1)
    release(group)
    assert [name for name, *_ in events_of(ask(api, group))] == ["state", "end"]


def test_an_ended_workflow_is_watched_until_nothing_of_it_is_left(api, monkeypatch):
    group = TaskGroupFactory(pods=1, status="COMPLETED")
    Workflow.objects.update(status="COMPLETED")
    after_each_read(monkeypatch, lambda: None, lambda: release(group))
    events = events_of(ask(api, group))
    released = [data["groups"][0]["released_at"] is not None for name, data, _ in events if name == "state"]
    assert released == [False, True]


def test_the_watch_of_a_workflow_that_is_removed_ends(api, monkeypatch):
    group = TaskGroupFactory(pods=1)
    after_each_read(monkeypatch, lambda: None, lambda: Workflow.objects.all().delete())
    assert events_of(ask(api, group))[-1] == ("end", {"removed": True}, None)


def test_a_silent_stream_says_that_it_is_there(api, monkeypatch, settings):
    limited(settings, log_follow_seconds=30)
    monkeypatch.setattr(state_feed, "HEARTBEAT_SECONDS", 0.2)
    group = TaskGroupFactory(pods=1)
    assert content_of(ask(api, group), pieces=2).endswith(watch.HEARTBEAT)


def test_of_a_wide_workflow_the_first_groups_are_watched(api, monkeypatch):
    monkeypatch.setattr(state_feed, "MOST_GROUPS", 2)
    workflow = TaskGroupFactory(name="a", position=0).workflow
    for position in (1, 2):
        group = TaskGroupFactory(workflow=workflow, name=f"n{position}", position=position)
    _, state, _ = events_of(ask(api, group), pieces=1)[0]
    assert ([group["name"] for group in state["groups"]], state["more_entries"]) == (["a", "n1"], True)


def test_a_stream_is_never_stored_or_held_back(api):
    answer = ask(api, TaskGroupFactory(), HTTP_ACCEPT="text/event-stream")
    assert answer["Content-Type"] == "text/event-stream"
    assert (answer["Cache-Control"], answer["X-Accel-Buffering"]) == ("no-store", "no")
    answer.close()


def test_only_who_may_read_a_workflow_watches_it(as_user):
    group = TaskGroupFactory()
    neighbour = as_user("neighbour")
    Role.objects.create(name="next", policies=[{"actions": ["*:*"], "resources": ["pool/next"]}])
    RoleAssignment.objects.create(user=User.objects.get(username="neighbour"), role="next")
    assert_error_shape(ask(neighbour, group, HTTP_ACCEPT="text/event-stream"), 404)


def test_watchers_are_limited_for_one_user_and_for_all_and_give_their_slots_back(as_user, settings):
    limited(settings, watchers=3, user_watchers=2)
    group = TaskGroupFactory()
    ann, bob = as_user("ann"), as_user("bob")
    watches = [ask(ann, group), ask(ann, group)]
    refused = ask(ann, group)
    assert "one user" in assert_error_shape(refused, 429)["message"]
    assert refused["Retry-After"] == str(slots.AGAIN_SECONDS)
    watches.append(ask(bob, group))
    assert_error_shape(ask(bob, group), 429)
    assert content_of(watches.pop(), pieces=1)
    assert slots.WATCHING.used() == 2


@pytest.mark.parametrize("workflows", [1, 20])
def test_any_number_of_watched_workflows_is_read_by_three_queries(django_assert_num_queries, workflows):
    keys = [TaskGroupFactory(pods=2).workflow_id for _ in range(workflows)]
    with django_assert_num_queries(3) as queries:
        assert set(state_feed.read_states(keys)) == set(keys)
    assert not any('"placement"' in query["sql"] for query in queries)
