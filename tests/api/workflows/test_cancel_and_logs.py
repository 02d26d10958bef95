"""Ending a workflow by hand, and reading what its tasks said."""

import pytest
from celery import current_app
from django.contrib.auth.models import User

from cluster.kinds import POD
from pools.clusters import connect
from scheduling import names
from tests.builders.hostile import HOSTILE, IN_ONE_LINE
from tests.error_shape import assert_error_shape
from tests.factories import TaskFactory, TaskGroupFactory
from tests.fakes.cluster import FakeCluster
from web.models import Role
from workflows.models import TaskGroup
from workflows.services import queue

pytestmark = pytest.mark.django_db


@pytest.fixture
def sent(monkeypatch):
    messages = []
    monkeypatch.setattr(queue, "length", lambda: 0)
    queue.forget()
    monkeypatch.setattr(current_app, "send_task", lambda name, args, **options: messages.append(args[0]))
    return messages


@pytest.fixture
def cluster(monkeypatch):
    cluster = FakeCluster()
    monkeypatch.setattr(connect, "connect", lambda *args: cluster)
    return cluster


def cancel(client, group, query=""):
    return client.post(f"/api/workflow/{group.workflow.name}/cancel{query}")


def test_a_cancel_asks_every_group_to_end_and_tells_the_workers(
    api, sent, django_capture_on_commit_callbacks
):
    first = TaskGroupFactory(status="RUNNING", next_reconcile_at=None)
    second = TaskGroupFactory(workflow=first.workflow, status="WAITING", next_reconcile_at=None)
    with django_capture_on_commit_callbacks(execute=True):
        answer = cancel(api, first, "?force=False&message=wrong+data")
    assert (answer.status_code, answer.json()) == (200, {"name": first.workflow.name})
    for group in TaskGroup.objects.all():
        assert group.stop_status == "FAILED_CANCELED"
        assert group.stop_message == "Cancelled by ann: wrong data"
        assert group.notifications == 1
        assert group.next_reconcile_at is not None
        assert group.force is False
    assert set(sent) == {str(first.pk), str(second.pk)}
    assert api.get(f"/api/workflow/{first.workflow.uuid.hex}").json()["cancelled_by"] == "ann"


def test_a_workflow_is_cancelled_by_its_uuid_too(api):
    group = TaskGroupFactory()
    assert api.post(f"/api/workflow/{group.workflow.uuid.hex}/cancel").json() == {"name": group.workflow.name}


def test_force_comes_on_top_of_an_earlier_cancel(api):
    group = TaskGroupFactory(status="RUNNING")
    cancel(api, group)
    assert cancel(api, group, "?force=True&message=now").status_code == 200
    group.refresh_from_db()
    assert (group.force, group.stop_message) == (True, "Cancelled by ann.")


def test_a_timeout_that_was_first_keeps_its_status(api):
    group = TaskGroupFactory(status="RUNNING", stop_status="FAILED_EXEC_TIMEOUT", stop_message="too long")
    cancel(api, group)
    group.refresh_from_db()
    assert (group.stop_status, group.stop_message) == ("FAILED_EXEC_TIMEOUT", "too long")


def test_an_ended_workflow_cannot_be_cancelled(api):
    group = TaskGroupFactory(status="COMPLETED")
    group.workflow.status = "COMPLETED"
    group.workflow.save()
    assert_error_shape(cancel(api, group), 409)
    group.refresh_from_db()
    assert group.stop_status == ""


def test_force_speeds_up_what_has_ended_and_is_still_in_the_cluster(api):
    group = TaskGroupFactory(status="COMPLETED")
    group.workflow.status = "COMPLETED"
    group.workflow.save()
    assert cancel(api, group, "?force=True").status_code == 200
    group.refresh_from_db()
    assert (group.force, group.stop_status) == (True, "")


def test_a_user_who_may_cancel_in_its_pool_may_cancel_it(as_user):
    """As in OSMO: the pool decides, not who submitted."""
    group = TaskGroupFactory()
    bob = as_user("bob")
    reads = [{"actions": ["workflow:Read"], "resources": [f"pool/{group.workflow.pool_name}"]}]
    Role.objects.create(name="reader", policies=reads)
    User.objects.get(username="bob").role_assignments.create(role="reader")
    body = assert_error_shape(cancel(bob, group), 403)
    assert "workflow:Cancel" in body["message"]
    assert cancel(as_user("eve"), group).status_code == 200


@pytest.mark.parametrize("query", ["?force=perhaps", "?messgae=x", "?message=" + "x" * 1001])
def test_a_mistyped_cancel_does_nothing(api, query):
    group = TaskGroupFactory()
    assert_error_shape(cancel(api, group, query), 400)
    group.refresh_from_db()
    assert group.stop_status == ""


def test_an_unknown_workflow_cannot_be_cancelled(api):
    assert_error_shape(api.post("/api/workflow/none-1/cancel"), 404)


def run(cluster, task, text):
    """A pod of this task that has said something."""
    pod = {
        "metadata": {"name": task.pod_name, "namespace": "osmo", "annotations": {"fake/log": text}},
        "spec": {"containers": [{"name": names.container(task.name), "image": "i"}]},
    }
    cluster.put(POD, pod)


def logs(api, group, tail="logs", query=""):
    """What is there now: a live workflow is followed otherwise."""
    if tail == "logs" and "follow" not in query:
        query += f"{'&' if query else '?'}follow=False"
    answer = api.get(f"/api/workflow/{group.workflow.name}/{tail}{query}")
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/plain")
    return b"".join(answer.streaming_content).decode()


def test_logs_of_one_task_are_its_own_lines(api, cluster):
    group = TaskGroupFactory(status="RUNNING")
    run(cluster, group.tasks.get(), "one\ntwo\nthree")
    assert logs(api, group) == "one\ntwo\nthree\n"
    assert logs(api, group, query="?last_n_lines=2") == "two\nthree\n"


def test_logs_of_several_tasks_say_whose_line_it_is(api, cluster):
    group = TaskGroupFactory(status="RUNNING", pods=2)
    first, second = group.tasks.all()
    run(cluster, first, "a\n")
    assert logs(api, group) == (
        f"[{first.name}] a\n[{second.name}] Pod {second.pod_name} is not in the cluster, so it has no log.\n"
    )
    assert logs(api, group, query=f"?task_name={first.name}&retry_id=0") == "a\n"


def test_logs_of_what_is_released_ask_no_cluster(api, cluster):
    group = TaskGroupFactory(status="FAILED_UPSTREAM")
    TaskGroup.objects.update(released_at=group.workflow.submit_time)
    assert logs(api, group) == "It never had a pod.\n"
    group.tasks.update(scheduling_start_time=group.workflow.submit_time)
    assert "is gone, and its log was not read" in logs(api, group)
    assert cluster.calls == []


def test_logs_before_there_is_a_pod_say_so(api, cluster):
    assert logs(api, TaskGroupFactory(status="WAITING")) == "It has no pod yet.\n"


def test_logs_from_a_cluster_that_does_not_answer_are_one_sentence(api, cluster):
    group = TaskGroupFactory(status="RUNNING", pods=3)
    with cluster.unreachable():
        assert logs(api, group).count("The cluster does not answer") == 1


def test_error_logs_are_those_of_tasks_that_failed(api, cluster):
    group = TaskGroupFactory(status="RUNNING", pods=1)
    failed = TaskFactory(group=group, status="FAILED", exit_code=3, failure_message="It exited with 3.")
    run(cluster, failed, "last words\n")
    assert logs(api, group, "error_logs") == (
        f"[{failed.name}] FAILED, exit code 3: It exited with 3.\n[{failed.name}] last words\n"
    )


def test_no_failure_has_no_error_log(api, cluster):
    assert logs(api, TaskGroupFactory(status="RUNNING"), "error_logs") == "No task has failed.\n"


def test_a_reason_of_a_cluster_forges_no_line_of_another_task(api, cluster):
    group = TaskGroupFactory(status="RUNNING", pods=1)
    failed = TaskFactory(group=group, status="FAILED", failure_message=HOSTILE)
    run(cluster, failed, "")
    assert logs(api, group, "error_logs") == f"[{failed.name}] FAILED: {IN_ONE_LINE}\n"


def test_an_event_of_a_cluster_forges_no_line_of_the_timeline(api):
    group = TaskGroupFactory(status="RUNNING")
    text = {"source": "x\n", "reason": "A\r\nB", "message": HOSTILE}
    group.workflow.events.create(group=group, time=group.workflow.submit_time, dedupe="1", **text)
    answer = api.get(f"/api/workflow/{group.workflow.name}/events").content.decode()
    assert len(answer.splitlines()) == 1
    assert answer.removesuffix("\n").isprintable()


def test_a_line_of_one_of_several_tasks_cannot_leave_the_name_before_it(api, cluster):
    group = TaskGroupFactory(status="RUNNING", pods=2)
    first, second = group.tasks.all()
    green = "\x1b[32mgreen\x1b[0m\tok\n"
    run(cluster, first, "10%\r[other] forged\x1b[1A\x08\u2028[other] too\u202eback\u2066\r\n" + green)
    run(cluster, second, "")
    assert logs(api, group) == (
        f"[{first.name}] 10%\\r[other] forged\\x1b[1A\\x08\\u2028[other] too\\u202eback\\u2066\n"
        f"[{first.name}] {green}"
    )


def test_the_log_of_one_task_is_unchanged(api, cluster):
    group = TaskGroupFactory(status="RUNNING")
    run(cluster, group.tasks.get(), "10%\r20%\x1b[K\n")
    assert logs(api, group) == "10%\r20%\x1b[K\n"
