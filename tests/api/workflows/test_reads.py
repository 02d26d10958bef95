"""Looking at workflows: OSMO's shapes, a fixed number of queries, and nothing asked of a cluster."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.db.models.signals import post_init
from django.test.utils import CaptureQueriesContext

from pools.clusters import connect
from scheduling.gang.gang_form import USUAL_FORM
from tests.error_shape import assert_error_shape
from tests.factories import LEVELS, PoolFactory, TaskFactory, TaskGroupFactory, WorkflowFactory
from tests.fakes.cluster import FakeCluster
from web.times import naive_utc
from workflows.api import shapes
from workflows.models import Event, ObservedObject, TaskGroup, Workflow

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch):
    def refuse(*args):
        raise AssertionError("a read must not ask a cluster")

    monkeypatch.setattr(connect, "connect", refuse)


def names(answer):
    assert answer.status_code == 200, answer.json()
    return [entry["name"] for entry in answer.json()["workflows"]]


def submitted_at(workflow, time):
    Workflow.objects.filter(pk=workflow.pk).update(submit_time=time)


def test_a_list_has_the_fields_that_the_client_reads(api):
    group = TaskGroupFactory()
    (entry,) = api.get("/api/workflow").json()["workflows"]
    assert set(entry) == set(shapes.ListedWorkflowShape.model_fields)
    assert entry["name"] == group.workflow.name
    assert entry["workflow_uuid"] == group.workflow.uuid.hex
    assert isinstance(entry["queued_time"], float)
    assert entry["duration"] is None


def test_times_have_no_zone(api):
    workflow = WorkflowFactory()
    submitted_at(workflow, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert api.get("/api/workflow").json()["workflows"][0]["submit_time"] == "2026-01-02T03:04:05"


def test_the_newest_come_first_and_a_page_says_whether_there_are_more(api):
    made = [WorkflowFactory() for _ in range(3)]
    for age, workflow in enumerate(made):
        submitted_at(workflow, datetime(2026, 1, 9, tzinfo=UTC) - timedelta(days=age))
    want = [workflow.name for workflow in made]
    first = api.get("/api/workflow?limit=2&offset=0&order=DESC&all_pools=True")
    assert (names(first), first.json()["more_entries"]) == (want[:2], True)
    second = api.get("/api/workflow?limit=2&offset=2&order=DESC&all_pools=True")
    assert (names(second), second.json()["more_entries"]) == (want[2:], False)
    assert names(api.get("/api/workflow?order=ASC")) == want[::-1]


def test_filters_narrow_a_list(api):
    pool = PoolFactory(name="h100")
    vision = WorkflowFactory(pool=pool, labels={"team": "vision"}, priority="HIGH", tags=["a", "b"])
    text = WorkflowFactory(base_name="infer", labels={"team": "text"}, status="RUNNING")
    bobs = WorkflowFactory(submitted_by="bob", status="FAILED_CANCELED")
    submitted_at(bobs, datetime(2026, 1, 1, tzinfo=UTC))
    queries = {
        "": {vision, text},
        "all_users=True": {vision, text, bobs},
        "users=bob": {bobs},
        "users=bob&users=ann": {vision, text, bobs},
        "statuses=RUNNING&statuses=PENDING": {vision, text},
        "statuses=RUNNING": {text},
        "name=INFER": {text},
        "pools=h100": {vision},
        "pools=h100&all_pools=True": {vision, text},
        "priority=HIGH": {vision},
        "label=team%3Dtext": {text},
        "label=team": {vision, text},
        "no_label=team%3Dtext": {vision},
        "no_label=team&all_users=True": {bobs},
        "tags=a&tags=b": {vision},
        "app=x": set(),
        "all_users=True&submitted_before=2026-01-02T00:00:00": {bobs},
        "all_users=True&submitted_after=2026-01-02 00:00:00": {vision, text},
    }
    got = {query: set(names(api.get(f"/api/workflow?{query}"))) for query in queries}
    assert got == {query: {workflow.name for workflow in want} for query, want in queries.items()}


@pytest.mark.parametrize(
    "query",
    [
        "limit=1001",
        "limit=0",
        "limit=x",
        "offset=-1",
        "order=UP",
        "statuses=DONE",
        "all_users=perhaps",
        "submitted_after=yesterday",
        "user=ann",
        "name=%00",
    ],
)
def test_a_wrong_filter_is_refused_by_its_name(api, query):
    body = assert_error_shape(api.get(f"/api/workflow?{query}"), 400)
    assert body["details"][0]["path"].startswith(query.partition("=")[0])


@pytest.mark.parametrize(
    ("address", "meant"),
    [
        ("/api/workflow?statuses=RUNING", "RUNNING"),
        ("/api/workflow?statuses=running", "RUNNING"),
        ("/api/workflow?priority=HIHG", "HIGH"),
        ("/api/workflow?order=DSC", "DESC"),
        ("/api/task?statuses=FAILED_CANCELLED", "FAILED_CANCELED"),
    ],
)
def test_a_mistyped_word_of_a_filter_is_answered_with_what_is_accepted_and_what_was_meant(
    api, address, meant
):
    message = assert_error_shape(api.get(address), 400)["message"]
    assert message.endswith(f'Did you mean "{meant}"?')
    assert meant in message.partition("accepted are ")[2].partition(".")[0].split(", ")


def test_a_workflow_has_the_fields_that_the_client_reads(api):
    group = TaskGroupFactory(pool=PoolFactory(nvlink=True, levels=LEVELS), pods=2)
    reply = api.get(f"/api/workflow/{group.workflow.name}?verbose=False").json()
    assert set(reply) == set(shapes.WorkflowShape.model_fields)
    assert set(reply["groups"][0]) == set(shapes.GroupShape.model_fields)
    assert set(reply["groups"][0]["tasks"][0]) == set(shapes.TaskShape.model_fields)
    assert set(reply["groups"][0]["compute_domain"]) == set(shapes.ComputeDomainShape.model_fields)


def test_a_workflow_is_found_by_name_and_by_uuid(api):
    workflow = WorkflowFactory()
    for known_as in (workflow.name, workflow.uuid.hex, str(workflow.uuid)):
        assert api.get(f"/api/workflow/{known_as}").json()["uuid"] == workflow.uuid.hex


@pytest.mark.parametrize("tail", ["", "/spec", "/events", "/logs", "/error_logs"])
@pytest.mark.parametrize("name", ["train-9", "0" * 32, "é", "x" * 300])
def test_an_unknown_workflow_is_a_404_with_the_code_the_client_knows(api, name, tail):
    assert assert_error_shape(api.get(f"/api/workflow/{name}{tail}"), 404)["error_code"] == "DATABASE"


def test_an_address_with_a_nul_is_a_404(api):
    assert_error_shape(api.get("/api/workflow/a%00b"), 404)


def test_the_latest_try_of_each_task_is_shown_and_all_of_them_if_asked(api):
    group = TaskGroupFactory(pods=0)
    first = TaskFactory(group=group, name="t", position=0, latest=False, status="RESCHEDULED", exit_code=3)
    TaskFactory(group=group, name="t", position=0, task_uuid=first.task_uuid, retry_id=1)
    address = f"/api/workflow/{group.workflow.name}"

    def tries(query):
        return [task["retry_id"] for task in api.get(address + query).json()["groups"][0]["tasks"]]

    assert tries("") == [1]
    assert tries("?verbose=True") == [1, 0]
    assert api.get(f"{address}?skip_groups=True").json()["groups"] == []


def test_a_waiting_group_says_why_and_what_it_is_held_to(api):
    first = TaskGroupFactory(status="COMPLETED")
    constraint = {
        "set": [{"key": "rack", "group": "default"}],
        "key": "rack",
        "label": "example.com/rack",
        "requirementType": "required",
        "tasks": 1,
        "subgroup": "",
        "held_by": None,
    }
    second = TaskGroupFactory(
        workflow=first.workflow, waiting_reason="No rack has room.", constraints=[constraint]
    )
    third = TaskGroupFactory(workflow=first.workflow, status="WAITING")
    second.upstream.add(first)
    third.upstream.add(second)
    groups = api.get(f"/api/workflow/{first.workflow.name}").json()["groups"]
    assert [group["remaining_upstream_groups"] for group in groups] == [[], [], [second.name]]
    assert [group["downstream_groups"] for group in groups] == [[second.name], [third.name], []]
    assert groups[1]["waiting_reason"] == "No rack has room."
    assert groups[1]["constraints"] == [constraint]
    eased = {"waitSeconds", "relaxed", "freed", "applied_key", "domain"}  # only where they apply
    assert set(constraint) | eased == set(shapes.ConstraintShape.model_fields)


@pytest.mark.parametrize("address", ["/api/workflow/{name}", "/ui/workflows/{name}"])
def test_dependencies_are_read_as_names(api, address):
    """A workflow may have ten thousand, and a model object for each costs a kilobyte and more."""
    first = TaskGroupFactory()
    groups = [first, *(TaskGroupFactory(workflow=first.workflow, status="WAITING") for _ in range(5))]
    for number, group in enumerate(groups):
        group.upstream.add(*groups[:number])
    rows = []

    def count(sender, instance, **rest):
        rows.append(instance.name)

    post_init.connect(count, sender=TaskGroup)
    try:
        assert api.get(address.format(name=first.workflow.name)).status_code == 200
    finally:
        post_init.disconnect(count, sender=TaskGroup)
    assert sorted(rows) == sorted(group.name for group in groups)


def test_a_group_with_patience_says_how_long_it_is_still_held_and_what_was_relaxed(api):
    line = {
        "set": [],
        "label": "l",
        "requirementType": "preferred",
        "tasks": 2,
        "subgroup": "",
        "held_by": None,
    }
    constraints = [
        {**line, "key": "rack", "waitSeconds": 10.0, "relaxed": True},
        {**line, "key": "zone", "waitSeconds": 3600.0, "relaxed": False},
    ]
    since = datetime.now(UTC) - timedelta(seconds=60)
    group = TaskGroupFactory(
        constraints=constraints,
        form={**USUAL_FORM.to_json(), "stage": 1},
        unplaced_since=since,
        waiting_reason="No room.",
        status="SCHEDULING",
    )
    (found,) = api.get(f"/api/workflow/{group.workflow.name}").json()["groups"]
    assert re.fullmatch(
        r"No room\. It is held to one zone as required for 3,5[34]\d more seconds, then as a preference\.",
        found["waiting_reason"],
    )
    patience = found["patience"]
    assert set(patience) == set(shapes.PatienceShape.model_fields)
    assert patience["stage"] == 1
    assert patience["unplaced_since"] == naive_utc(since)
    assert patience["next_relaxation_at"] == naive_utc(since + timedelta(hours=1))
    assert found["constraints"] == constraints


def test_a_compute_domain_is_shown_as_last_seen(api):
    group = TaskGroupFactory(pool=PoolFactory(nvlink=True))
    address = f"/api/workflow/{group.workflow.name}"
    assert api.get(address).json()["groups"][0]["compute_domain"]["present"] is False
    ObservedObject.objects.create(
        cluster=group.backend.cluster,
        kind="ComputeDomain",
        namespace="osmo",
        name=f"osmo-{group.uuid.hex}",
        uid="u",
        group_uuid=group.uuid,
        seen_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    domain = api.get(address).json()["groups"][0]["compute_domain"]
    assert (domain["name"], domain["present"]) == (f"osmo-{group.uuid.hex}", True)


def test_a_group_outside_nvlink_has_no_compute_domain(api):
    group = TaskGroupFactory()
    assert api.get(f"/api/workflow/{group.workflow.name}").json()["groups"][0]["compute_domain"] is None


def test_the_spec_is_text_and_so_is_its_template(api):
    workflow = WorkflowFactory(spec="workflow: {name: a}\n", template_spec="workflow: {name: {{x}}}\n")
    address = f"/api/workflow/{workflow.name}/spec"
    assert api.get(address).content == b"workflow: {name: a}\n"
    assert api.get(f"{address}?use_template=True").content == b"workflow: {name: {{x}}}\n"
    assert api.get(address)["Content-Type"].startswith("text/plain")


def event(group, minute, **fields):
    values = {
        "workflow": group.workflow,
        "group": group,
        "time": datetime(2026, 1, 1, 0, minute, tzinfo=UTC),
        "source": "kai-scheduler",
        "reason": "Bound",
        "message": f"minute\n {minute}",
        "dedupe": str(minute),
    }
    return Event.objects.create(**{**values, **fields})


def test_events_are_lines_in_order_of_time(api):
    group = TaskGroupFactory()
    task = group.tasks.get().name
    event(group, 2, task_name=task, retry_id=0, warning=True)
    event(group, 1)
    text = api.get(f"/api/workflow/{group.workflow.name}/events").content.decode()
    assert text.splitlines() == [
        f"2026-01-01T00:01:00 [{group.name}] Normal kai-scheduler Bound: minute 1",
        f"2026-01-01T00:02:00 [{task}] Warning kai-scheduler Bound: minute 2",
    ]


def test_events_of_a_task_are_its_own_and_those_of_its_group(api):
    group = TaskGroupFactory(pods=2)
    first, second = (task.name for task in group.tasks.all())
    event(group, 1)
    event(group, 2, task_name=first, retry_id=0)
    event(group, 3, task_name=second, retry_id=0)
    text = api.get(
        f"/api/workflow/{group.workflow.name}/events?task_name={second}&retry_id=0"
    ).content.decode()
    assert [line[14:16] for line in text.splitlines()] == ["01", "03"]


def test_only_the_last_events_are_given_and_the_text_says_so(api):
    group = TaskGroupFactory()
    for minute in range(5):
        event(group, minute)
    text = api.get(f"/api/workflow/{group.workflow.name}/events?last_n_lines=2").content.decode()
    assert text.splitlines()[0] == "(only the last 2 events are shown)"
    assert "minute 4" in text.splitlines()[-1]
    assert len(text.splitlines()) == 3


@pytest.mark.parametrize("tail", ["events", "logs", "error_logs"])
@pytest.mark.parametrize("query", ["task_name=nobody", "retry_id=7"])
def test_an_unknown_task_or_try_is_a_404(api, tail, query):
    group = TaskGroupFactory()
    assert_error_shape(api.get(f"/api/workflow/{group.workflow.name}/{tail}?{query}"), 404)


def queries_of(api, address):
    with CaptureQueriesContext(connection) as captured:
        assert api.get(address).status_code == 200
    return len(captured)


@pytest.mark.parametrize(
    "address", ["/api/workflow?limit=1000", "/api/workflow/{name}", "/api/workflow/{name}/events"]
)
def test_the_number_of_queries_does_not_grow(api, address):
    pool = PoolFactory(nvlink=True)
    group = TaskGroupFactory(pool=pool, pods=1)
    event(group, 0)
    address = address.format(name=group.workflow.name)
    few = queries_of(api, address)
    more = [TaskGroupFactory(pool=pool, workflow=group.workflow, pods=3) for _ in range(4)]
    more[0].upstream.add(group)
    for number in range(5):
        WorkflowFactory(pool=PoolFactory())
        event(group, number + 1)
    assert queries_of(api, address) == few <= 10


def test_logs_say_plainly_that_a_pod_is_gone(api, monkeypatch):
    cluster = FakeCluster()
    monkeypatch.setattr(connect, "connect", lambda *args: cluster)
    group = TaskGroupFactory(status="RUNNING")
    text = read_text(api.get(f"/api/workflow/{group.workflow.name}/logs?follow=False"))
    assert text == f"Pod {group.tasks.get().pod_name} is not in the cluster, so it has no log.\n"


def read_text(answer):
    assert answer.status_code == 200
    return b"".join(answer.streaming_content).decode()


def test_a_list_says_why_the_first_waiting_group_of_a_live_workflow_waits(api):
    reason = "Attempt 2 waits: there is not enough room."
    waiting = TaskGroupFactory(status="RUNNING", waiting_reason=reason)
    TaskGroupFactory(workflow=waiting.workflow, position=1, status="RUNNING", waiting_reason="Another one.")
    ended = TaskGroupFactory(status="COMPLETED", waiting_reason=reason)
    Workflow.objects.filter(pk=ended.workflow.pk).update(status="COMPLETED")
    reasons = {
        entry["name"]: entry["waiting_reason"] for entry in api.get("/api/workflow").json()["workflows"]
    }
    assert reasons == {waiting.workflow.name: reason, ended.workflow.name: None}
