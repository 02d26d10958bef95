"""The list of tasks, tags of workflows, and who uses the service."""

import pytest

from tests.error_shape import assert_error_shape
from tests.factories import PoolFactory, TaskFactory, TaskGroupFactory, WorkflowFactory
from workflows.api import listing
from workflows.services.tags import MOST_TAGS

pytestmark = pytest.mark.django_db


def tasks(answer):
    assert answer.status_code == 200, answer.json()
    return [entry["task_name"] for entry in answer.json()["tasks"]]


def test_a_task_tells_what_the_client_prints(api):
    group = TaskGroupFactory(pods=0, status="RUNNING")
    TaskFactory(group=group, name="shard", node_name="n1", placement__gpu=8, placement__memory="64Gi")

    (entry,) = api.get("/api/task?limit=20&offset=0&order=ASC&all_pools=True").json()["tasks"]

    assert set(entry) == set(listing.ListedTaskShape.model_fields)
    assert (entry["user"], entry["workflow_id"], entry["task_name"]) == ("ann", group.workflow.name, "shard")
    assert (entry["node"], entry["gpu"], entry["cpu"], entry["memory"], entry["storage"]) == (
        "n1",
        8,
        1,
        64.0,
        0.0,
    )
    assert entry["error_logs"] is None
    assert entry["logs"].endswith(f"/api/workflow/{group.workflow.name}/logs?task_name=shard&retry_id=0")


def test_tasks_are_narrowed_by_user_status_pool_node_and_workflow(api):
    pool = PoolFactory(name="train")
    mine = TaskGroupFactory(pods=0, status="RUNNING", pool=pool, workflow=WorkflowFactory(pool=pool))
    TaskFactory(group=mine, name="a", node_name="n1")
    TaskFactory(group=mine, name="b", status="FAILED")
    other = TaskGroupFactory(pods=0, workflow=WorkflowFactory(submitted_by="bob", base_name="bobs"))
    TaskFactory(group=other, name="c")

    def found(query):
        return tasks(api.get(f"/api/task?order=ASC&{query}"))

    assert found("") == ["a", "b"]
    assert found("all_users=True") == ["a", "b", "c"]
    assert found("users=bob") == ["c"]
    assert found("statuses=RUNNING&statuses=SCHEDULING") == ["a"]
    assert found("pools=train&all_users=True") == ["a", "b"]
    assert found("nodes=n1") == ["a"]
    assert found(f"workflow_id={other.workflow.name}&all_users=True") == ["c"]


def test_the_requests_of_tasks_are_summed_by_user_pool_and_priority_or_by_workflow(api):
    """Two workflows of ann's in train, one of them with a finished task; one of bob's."""
    pool = PoolFactory(name="train")
    first, second = (WorkflowFactory(pool=pool, base_name=name) for name in ("first", "second"))
    group = TaskGroupFactory(pods=0, status="RUNNING", pool=pool, workflow=first)
    for name, gpus, memory in (("a", 4, "1Gi"), ("b", 4, "1Gi"), ("c", 8, "512Mi")):
        TaskFactory(group=group, name=name, placement__gpu=gpus, placement__cpu=2, placement__memory=memory)
    other = TaskGroupFactory(pods=0, status="RUNNING", pool=pool, workflow=second)
    TaskFactory(group=other, placement__gpu=1, placement__cpu=1)
    TaskFactory(group=other, placement__gpu=1, placement__cpu=1, status="COMPLETED")
    TaskFactory(group=TaskGroupFactory(pods=0, workflow=WorkflowFactory(submitted_by="bob")))

    def sums(query):
        return api.get(f"/api/task?statuses=RUNNING&order=ASC&{query}").json()["summaries"]

    whose = {"user": "ann", "pool": "train", "priority": "NORMAL"}
    by_user = {**whose, "gpu": 17, "cpu": 7, "memory": 3.5, "storage": 0.0}
    by_workflow = [
        {**whose, "workflow_id": first.name, "gpu": 16, "cpu": 6, "memory": 2.5, "storage": 0.0},
        {**whose, "workflow_id": second.name, "gpu": 1, "cpu": 1, "memory": 1.0, "storage": 0.0},
    ]
    assert sums("summary=True") == [by_user]
    assert sums("summary=True&aggregate_by_workflow=True") == [by_user]
    assert sums("aggregate_by_workflow=True") == by_workflow
    assert sums("aggregate_by_workflow=True&limit=1&offset=1") == by_workflow[1:]
    newest_first = api.get("/api/task?statuses=RUNNING&aggregate_by_workflow=True").json()["summaries"]
    assert newest_first == by_workflow[::-1]
    assert {entry["user"] for entry in sums("summary=True&all_users=True")} <= {"ann", "bob"}


def test_tasks_come_in_pages_the_newest_first(api):
    group = TaskGroupFactory(pods=0)
    for name in "abc":
        TaskFactory(group=group, name=name)
    assert tasks(api.get("/api/task?limit=2")) == ["c", "b"]
    assert tasks(api.get("/api/task?limit=2&offset=2")) == ["a"]


def test_a_page_that_is_too_large_is_refused_with_what_would_be_accepted(api):
    answer = api.get("/api/task?limit=1001")
    assert_error_shape(answer, 400)
    assert "1000" in answer.json()["message"]


def test_a_page_of_tasks_takes_one_query_whatever_its_size(api, django_assert_max_num_queries):
    TaskGroupFactory(pods=40)
    with django_assert_max_num_queries(3):
        assert len(tasks(api.get("/api/task?limit=1000"))) == 40


def test_tags_are_put_on_and_taken_off_and_a_list_finds_them(api):
    workflow = WorkflowFactory(tags=["old", "kept"])

    answer = api.post(f"/api/workflow/{workflow.name}/tag?add=night&add=kept&remove=old")

    assert answer.json() == {"name": workflow.name, "tags": ["kept", "night"]}
    assert api.get("/api/tag").json() == {"tags": ["kept", "night"]}
    (found,) = api.get("/api/workflow?tags=night").json()["workflows"]
    assert found["name"] == workflow.name


@pytest.mark.parametrize("tag", ["x%00", "x" * 64, "a%0Ab"])
def test_a_tag_that_nobody_could_read_is_refused(tag, api):
    workflow = WorkflowFactory(tags=["old"])
    answer = api.post(f"/api/workflow/{workflow.name}/tag?add={tag}")
    workflow.refresh_from_db()
    assert (answer.status_code, workflow.tags) == (400, ["old"])


def test_a_workflow_carries_a_bounded_number_of_tags(api):
    workflow = WorkflowFactory(tags=[f"t{i}" for i in range(MOST_TAGS)])
    answer = api.post(f"/api/workflow/{workflow.name}/tag?add=more")
    assert answer.status_code == 400
    assert str(MOST_TAGS) in answer.json()["message"]


def test_tags_in_use_are_read_in_pages(api):
    for number in range(20):
        WorkflowFactory(tags=[f"t{number * MOST_TAGS + i:04}" for i in range(MOST_TAGS)])
    first = api.get("/api/tag").json()["tags"]
    assert first == [f"t{i:04}" for i in range(1000)]
    assert api.get("/api/tag?offset=1278").json()["tags"] == ["t1278", "t1279"]
    assert api.get("/api/tag?limit=1").json()["tags"] == ["t0000"]
    assert api.get("/api/tag?limit=1001").status_code == 400


def test_users_are_those_who_submitted_something_the_caller_may_list(api):
    for user in ("bob", "ann", "bob"):
        WorkflowFactory(submitted_by=user)
    assert api.get("/api/users").json() == ["ann", "bob"]
