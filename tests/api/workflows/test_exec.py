"""Who gets a key to a session in a task, and in which words others are refused: OSMO's where it has them."""

import json

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from rest_framework.test import APIClient

from tests.factories import PoolFactory, TaskGroupFactory
from web.limits import redis_server
from web.models import Role
from workflows.models import ObservedPod, Task

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def redis(settings, redis_url):
    """Where sessions are counted."""
    settings.CELERY_BROKER_URL = redis_url


@pytest.fixture
def keys(monkeypatch):
    """What Redis would hold."""
    held_keys = {}
    monkeypatch.setattr(redis_server, "put_key", held_keys.__setitem__)
    return held_keys


@pytest.fixture
def client():
    client = APIClient()
    client.force_authenticate(User.objects.create_user("ann"))
    return client


@pytest.fixture
def group():
    """A group whose first task runs and whose second one is on its way."""
    group = TaskGroupFactory(pool=PoolFactory(allow_exec=True), pods=2, status="RUNNING")
    status_of(group, "RUNNING")
    task = Task.objects.get(group=group, name="task-0")
    Task.objects.filter(group=group, name="task-1").update(status="INITIALIZING")
    ObservedPod.objects.create(
        cluster=group.backend.cluster,
        namespace=group.placement["namespace"],
        name=task.pod_name,
        uid="uid-0",
        group_uuid=group.pk,
        phase="Running",
        seen_at=timezone.now(),
    )
    return group


def status_of(group, status):
    group.workflow.status = status
    group.workflow.save()


def post(client, group, target="task/task-0", command="/bin/bash", **more):
    query = "" if command is None else f"?entry_command={command}"
    address = f"/api/workflow/{group.workflow.name}/exec/{target}{query}"
    answer = client.post(address, **more)
    return answer.status_code, answer.json()


def refused(client, group, *rest):
    status, body = post(client, group, *rest)
    return status, body["error_code"], body["message"]


def test_a_key_stands_for_this_user_this_try_and_this_pod(client, group, keys):
    status, answer = post(client, group, command="python%20-c%20'x%20y'")
    task = Task.objects.get(group=group, name="task-0")
    assert status == 200
    assert answer["router_address"] == "ws://testserver"
    assert answer["cookie"] == ""
    assert answer["key"].startswith("EXEC-")
    (ticket,) = map(json.loads, keys.values())
    assert ticket["username"] == "ann"
    assert ticket["command"] == ["python", "-c", "x y"]
    assert (ticket["target"]["pod"], ticket["target"]["uid"]) == (task.pod_name, "uid-0")
    assert ticket["target"]["container"] == "task-0"


def test_the_address_is_that_of_the_backend_where_it_has_one(client, group, keys):
    group.backend.router_address = "wss://router.example/osmo/"
    group.backend.save()
    assert post(client, group)[1]["router_address"] == "wss://router.example/osmo"


def test_a_caller_by_tls_gets_an_address_by_tls(client, group, keys):
    _, answer = post(client, group, secure=True)
    assert answer["router_address"] == "wss://testserver"


@pytest.fixture
def member():
    """Somebody else who may run commands in this pool's tasks of their own."""
    client = APIClient()
    client.force_authenticate(User.objects.create_user("ben"))
    return client


@pytest.mark.parametrize("target", ["task/task-0", "group/group-0"])
def test_a_member_of_the_pool_enters_no_tasks_of_another_user(member, group, keys, target):
    status, code, message = refused(member, group, target)
    assert (status, code, keys) == (403, "USER", {})
    assert message == (
        f"Workflow {group.workflow.name} is another user's: only that user, and who administers pool "
        f"{group.workflow.pool_name} (config:Update), may enter its tasks."
    )


def test_who_administers_the_pool_enters_tasks_of_its_users(member, group, keys):
    words = [{"actions": ["workflow:*", "config:Update"], "resources": [f"pool/{group.workflow.pool_name}"]}]
    Role.objects.create(name="keeper", policies=words)
    User.objects.get(username="ben").role_assignments.create(role="keeper")
    assert post(member, group)[0] == 200


def test_a_group_has_a_key_for_each_task_that_runs(client, group, keys):
    status, answer = post(client, group, f"group/{group.name}", command="hostname")
    assert (status, list(answer)) == (200, ["task-0"])
    (ticket,) = map(json.loads, keys.values())
    assert ticket["lines"] is True


def test_a_group_of_more_tasks_than_a_user_may_have_sessions_is_refused_as_a_whole(
    client, group, keys, settings
):
    settings.ENV = settings.ENV.model_copy(update={"user_sessions": 0})
    status, _, message = refused(client, group, f"group/{group.name}")
    assert (status, keys) == (429, {})
    assert "0 may be at a time" in message


def test_a_user_who_asks_for_sessions_without_end_is_told_when_to_come_again(client, group, keys):
    path = f"/api/workflow/{group.workflow.name}/exec/task/task-0?entry_command=sh"
    answers = []
    while len(answers) < 600 and (not answers or answers[-1].status_code == 200):
        answers.append(client.post(path))  # one more is allowed for each second that they take
    answer = answers[-1]
    assert len(answers) > 60
    assert (answer.status_code, answer.json()["error_code"], answer.headers["Retry-After"]) == (
        429,
        "BUSY",
        "1",
    )
    assert "60 sessions of a user may begin in a minute" in answer.json()["message"]


def test_a_pool_that_does_not_allow_it_says_who_can_change_that(client, group):
    group.workflow.backend.pools.update(allow_exec=False)
    status, code, message = refused(client, group)
    assert (status, code) == (403, "USER")
    assert "allow_exec" in message


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("PENDING", (425, "USER", "Workflow {} is not running yet...")),
        ("WAITING", (425, "USER", "Workflow {} is not running yet...")),
        ("COMPLETED", (410, "USER", "Workflow {} is not running!")),
        ("FAILED", (410, "USER", "Workflow {} is not running!")),
    ],
)
def test_a_workflow_that_does_not_run_is_told_from_one_that_has_ended(client, group, status, expected):
    status_of(group, status)
    *numbers, sentence = expected
    assert refused(client, group) == (*numbers, sentence.format(group.workflow.name))


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("task/none", (404, "USER", "Task none does not exist in workflow {}!")),
        ("task/task-1", (425, "USER", "Task task-1 is not yet running in workflow {}!")),
        ("group/none", (404, "USER", "Group none does not exist in workflow {}!")),
    ],
)
def test_a_task_that_cannot_be_entered_is_told_in_osmos_words(client, group, target, expected):
    *numbers, sentence = expected
    assert refused(client, group, target) == (*numbers, sentence.format(group.workflow.name))


def test_a_task_and_a_group_that_have_ended_are_told_in_osmos_words(client, group):
    Task.objects.filter(group=group).update(status="COMPLETED")
    name = group.workflow.name
    assert refused(client, group) == (404, "USER", f"Task task-0 is not running in workflow {name}!")
    sentence = f"No active tasks in group {group.name} of workflow {name}!"
    assert refused(client, group, f"group/{group.name}") == (404, "USER", sentence)


def test_a_task_whose_pod_is_gone_or_going_is_not_entered(client, group):
    ObservedPod.objects.update(deleting=True)
    assert refused(client, group)[0] == 425


def test_an_old_try_is_never_entered(client, group, keys):
    Task.objects.filter(group=group, name="task-0").update(latest=False)
    assert refused(client, group)[0] == 404


@pytest.mark.parametrize("command", [None, "", "%20", "'", "a" * 9000, "%00"])
def test_a_command_that_is_none_is_refused(client, group, command):
    status, code, _ = refused(client, group, "task/task-0", command)
    assert (status, code) in {(400, "USAGE"), (400, "USER")}
