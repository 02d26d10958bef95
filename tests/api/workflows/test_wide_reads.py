"""A wide workflow is read a few rows at a time, whatever its width, and in the user's turn."""

import json
from collections import Counter
from contextlib import contextmanager

import pytest
from django.db import connection
from django.db.models.signals import post_init
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

import pages.workflows.content  # noqa: F401 -- it copies numbers that are patched here
from tests.answers import content_of
from tests.builders.wide import wide_workflow
from tests.error_shape import assert_error_shape
from tests.factories import TaskFactory, TaskGroupFactory
from web.limits import pieces
from web.limits.turns import process_turns
from workflows import group_reads
from workflows.api import task_page
from workflows.explain import report
from workflows.group_reads import GroupRange, WorkflowRemoved
from workflows.logs import read as log_reads
from workflows.models import Attempt, Task, TaskGroup, Workflow

pytestmark = pytest.mark.django_db

WIDE = 1_001
READS = ["", "?verbose=True", "/explain"]


@pytest.fixture
def wide():
    return wide_workflow(groups=WIDE, status="SCHEDULING", waiting_reason="No room.", waiting_why="capacity")


@pytest.fixture(autouse=True)
def no_verdicts(monkeypatch):
    monkeypatch.setattr(report, "_report", lambda *_, **__: None)


@pytest.fixture
def small_reads(monkeypatch):
    """Batches of two or three rows, and a piece for each text."""
    monkeypatch.setattr(group_reads, "GROUPS_AT_ONCE", 2)
    monkeypatch.setattr(group_reads, "TASKS_AT_ONCE", 3)
    monkeypatch.setattr(group_reads, "ATTEMPTS_AT_ONCE", 2)
    monkeypatch.setattr(report, "WAITS_AT_ONCE", 2)
    monkeypatch.setattr(pieces, "PIECE_CHARACTERS", 1)


def read(api, workflow, tail=""):
    answer = api.get(f"/api/workflow/{workflow.name}{tail}")
    assert answer.status_code == 200, content_of(answer)
    return answer, json.loads(content_of(answer))


@contextmanager
def most_rows():
    """How many model objects there are at most at one time, by model; counted while an answer is read."""
    alive, most = Counter(), Counter()

    class Mark:
        def __init__(self, model):
            self.model = model

        def __del__(self):
            alive[self.model] -= 1

    def count(sender, instance, **_):
        instance._mark = Mark(sender)
        alive[sender] += 1
        most[sender] = max(most[sender], alive[sender])

    post_init.connect(count)
    try:
        yield most
    finally:
        post_init.disconnect(count)


@pytest.mark.parametrize("tail", READS)
def test_few_rows_and_a_small_piece_of_a_wide_workflow_are_in_memory_at_once(api, wide, tail):
    with most_rows() as most:
        answer = api.get(f"/api/workflow/{wide.name}{tail}")
        sizes, content = [], bytearray()
        for piece in answer.streaming_content:
            sizes.append(len(piece))
            content += piece
    assert len(json.loads(content)["groups"]) == WIDE
    assert most[TaskGroup] <= 2 * group_reads.GROUPS_AT_ONCE + 1
    assert most[Task] <= 2 * group_reads.TASKS_AT_ONCE
    assert max(sizes) < 2 * pieces.PIECE_CHARACTERS


@pytest.mark.parametrize("tail", READS)
def test_the_statements_of_a_wide_read_are_those_of_its_batches(api, wide, tail):
    with CaptureQueriesContext(connection) as queries:
        read(api, wide, tail)
    assert len(queries) <= 15 + 4 * -(-WIDE // group_reads.GROUPS_AT_ONCE)


def test_an_answer_in_pieces_is_the_answer_as_a_whole(api, small_reads, monkeypatch):
    group = TaskGroupFactory(pods=7, status="RUNNING")
    workflow = group.workflow
    empty = TaskGroupFactory(workflow=workflow, pods=0, waiting_reason="\u2028")
    again = [
        TaskGroupFactory(workflow=workflow, pods=2, attempt_number=3, waiting_reason="No room.")
        for _ in range(3)
    ]
    for row in again:
        row.upstream.add(group, empty)
        for number in (1, 2):
            values = {"status": "FAILED", "loss": "failed", "counted": True, "nodes": ["n"]}
            times = {"began_at": row.submit_time, "end_time": row.submit_time}
            Attempt.objects.create(group=row, number=number, **values, **times)
    task = group.tasks.first()
    Task.objects.filter(pk=task.pk).update(latest=False)
    TaskFactory(group=group, name=task.name, position=0, task_uuid=task.task_uuid, retry_id=1, node_name="n")
    for tail in READS:
        answer, in_pieces = read(api, workflow, tail)
        assert answer.streaming
        with monkeypatch.context() as patch:
            for module, names in (
                (group_reads, ("GROUPS_AT_ONCE", "TASKS_AT_ONCE", "ATTEMPTS_AT_ONCE")),
                (report, ("WAITS_AT_ONCE",)),
                (pieces, ("PIECE_CHARACTERS",)),
            ):
                for name in names:
                    patch.setattr(module, name, 10**6)
            answer, whole = read(api, workflow, tail)
        assert not answer.streaming
        assert answer["Content-Type"] == "application/json"
        timeless = ("duration", "queued_time")
        assert {k: v for k, v in in_pieces.items() if k not in timeless} == {
            k: v for k, v in whole.items() if k not in timeless
        }


@pytest.mark.parametrize("tail", ["", "/explain"])
def test_pages_of_groups_make_the_whole(api, small_reads, tail):
    workflow = wide_workflow(groups=7, status="SCHEDULING", waiting_reason="No room.", waiting_why="capacity")
    _, whole = read(api, workflow, tail)
    assert whole["more_entries"] is False
    assert [group.get("name") or group["group"] for group in whole["groups"]] == [
        f"group-{n}" for n in range(7)
    ]
    found = []
    for offset in (0, 3, 6):
        _, page = read(api, workflow, f"{tail}?limit=3&offset={offset}")
        found += page["groups"]
        assert page["more_entries"] is (offset < 6)
    assert found == whole["groups"]


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "offset=-1"])
@pytest.mark.parametrize("tail", ["", "/explain"])
def test_a_wrong_page_is_refused_by_its_name(api, query, tail):
    group = TaskGroupFactory()
    body = assert_error_shape(api.get(f"/api/workflow/{group.workflow.name}{tail}?{query}"), 400)
    assert body["details"][0]["path"] == query.partition("=")[0]


@pytest.mark.parametrize("tail", READS)
def test_a_long_read_stands_in_the_users_turn_and_a_short_one_does_not(api, as_user, small_reads, tail):
    workflow = wide_workflow(groups=7, waiting_reason="No room.", waiting_why="capacity")
    short = TaskGroupFactory().workflow
    places = [process_turns().enter("ann") for _ in range(3)]
    try:
        assert_error_shape(api.get(f"/api/workflow/{workflow.name}{tail}"), 429)
        read(api, short, tail)
        read(api, workflow, "?skip_groups=True")
        read(as_user("bob", is_superuser=True), workflow, tail)
    finally:
        for place in places:
            place.leave()
    assert process_turns().is_idle


@pytest.mark.parametrize("tail", READS)
def test_a_read_that_is_refused_has_read_no_group(api, small_reads, tail):
    workflow = wide_workflow(groups=7, waiting_reason="No room.", waiting_why="capacity")
    places = [process_turns().enter("ann") for _ in range(3)]
    try:
        with CaptureQueriesContext(connection) as statements:
            assert_error_shape(api.get(f"/api/workflow/{workflow.name}{tail}"), 429)
    finally:
        for place in places:
            place.leave()
    reads = [statement["sql"] for statement in statements]
    assert not [sql for sql in reads if '"workflows_taskgroup"."placement"' in sql]


def test_an_answer_whose_workflow_is_removed_meanwhile_is_cut_off(api, small_reads):
    workflow = wide_workflow(groups=7)
    parts = iter(api.get(f"/api/workflow/{workflow.name}").streaming_content)
    next(parts)
    Workflow.objects.all().delete()
    with pytest.raises(WorkflowRemoved):
        list(parts)


def test_a_batch_whose_tasks_are_removed_meanwhile_is_no_shorter_one(small_reads):
    workflow = wide_workflow(groups=7)
    groups = GroupRange(workflow=workflow, offset=0, limit=None, every_try=False)
    batches = groups.task_batches(groups.groups)
    next(batches)
    Task.objects.all().delete()
    with pytest.raises(WorkflowRemoved):
        list(batches)


def test_sums_of_many_tasks_stand_in_the_users_turn(api, monkeypatch):
    monkeypatch.setattr(task_page, "TASKS_AT_ONCE", 2)
    many, few = wide_workflow(groups=3), wide_workflow(groups=2)
    places = [process_turns().enter("ann") for _ in range(3)]
    address = "/api/task?all_users=True&summary=True&workflow_id="
    try:
        assert_error_shape(api.get(address + many.name), 429)
        assert api.get(address + few.name).status_code == 200
        assert api.get(f"/api/task?all_users=True&workflow_id={many.name}").status_code == 200
    finally:
        for place in places:
            place.leave()
    assert len(api.get(address + many.name).json()["summaries"]) == 1


@pytest.mark.parametrize(("tail", "status"), [("logs", "COMPLETED"), ("error_logs", "FAILED")])
def test_logs_of_a_wide_workflow_read_the_tasks_that_they_show(api, tail, status):
    workflow = wide_workflow(groups=WIDE)
    Task.objects.update(status=status)
    TaskGroup.objects.update(status=status, released_at=timezone.now())
    Workflow.objects.update(status=status)
    with most_rows() as most:
        lines = content_of(api.get(f"/api/workflow/{workflow.name}/{tail}")).splitlines()
    assert most[Task] == log_reads.MOST_TASKS
    assert lines[0].startswith(b"[")
    left_out = WIDE - log_reads.MOST_TASKS
    assert lines[-1] == b"%d more tasks were left out; task_name=<name> gives one of them." % left_out
