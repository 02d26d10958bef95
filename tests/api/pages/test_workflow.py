"""The page of one workflow: all that is known of it, to whom REST shows it, cheap to load again."""

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from pages.workflows import explanations
from pools.models import Pool
from tests.api.pages.reading import words
from tests.builders.gangs import set_frozen
from tests.factories import (
    CLIQUE,
    LEVELS,
    RACK,
    NodeFactory,
    PoolFactory,
    TaskFactory,
    TaskGroupFactory,
    WorkflowFactory,
)
from web.models import Role
from workflows.explain.reasons import Why
from workflows.explain.report import WaitExplanation
from workflows.explain.waiting_beside import WaitingBeside
from workflows.models import Event, ObservedObject, Task, TaskGroup, Workflow

pytestmark = pytest.mark.django_db

HOSTILE = "<script>alert('x')</script>\"'&"


@pytest.fixture
def pool():
    made = PoolFactory(name="gb200", levels=LEVELS, nvlink=True)
    for number in range(4):
        labels = {LEVELS[0].label: "z1", RACK.label: f"r{number // 2}", CLIQUE.label: f"c{number // 2}"}
        NodeFactory(cluster=made.backend.cluster, name=f"node-{number}", labels=labels)
    return made


def workflow_in(pool, *, pods=2, status="SCHEDULING", **fields):
    workflow = WorkflowFactory(pool=pool, **fields)
    TaskGroupFactory(pool=pool, workflow=workflow, pods=pods, name="workers", status=status)
    return workflow


def page_of(client, workflow, query=""):
    answer = client.get(f"/ui/workflows/{workflow.name}{query}")
    assert answer.status_code == 200, answer.content.decode()
    return answer.content.decode()


def section(page, name):
    found = re.search(rf'<section id="live-{name}".*?</section>', page, re.DOTALL)
    assert found, f"no section {name}"
    return found[0]


def waits(workflow, *, why="capacity", reason="No rack has room for 2 tasks."):
    workflow.groups.update(waiting_why=why, waiting_reason=reason, waiting_since=timezone.now())


def requires_a_rack(workflow):
    for task in Task.objects.filter(group__workflow=workflow):
        task.spec = {
            **task.spec,
            "gpu": 8,
            "requirements": [{"key": "rack", "group": "r", "required": True}],
        }
        task.save()


def test_a_workflow_is_shown_with_its_groups_tasks_and_spec(browser, pool):
    workflow = workflow_in(pool, pods=0, spec="workflow:\n  name: train # <b>\n")
    first = workflow.groups.get()
    after = TaskGroupFactory(pool=pool, workflow=workflow, pods=1, name="eval", status="WAITING")
    after.upstream.add(first)
    TaskFactory(group=first, name="t0", node_name="node-1", status="RUNNING", start_time=timezone.now())
    TaskFactory(group=first, name="t1", retry_id=2, exit_code=137, status="FAILED", failure_message="Killed.")

    page = page_of(browser, workflow)

    groups, tasks = section(page, "groups"), section(page, "tasks")
    assert re.search(r"<svg.*workers.*eval.*</svg>", groups, re.DOTALL)
    assert re.search(r"<th scope=\"row\">eval</th>.*<td>workers</td>", groups, re.DOTALL)
    assert re.search(r"t0</th>.*Running.*node-1.*task_name=t0&amp;retry_id=0", tasks, re.DOTALL)
    assert re.search(r"t1</th>.*Failed.*Killed\..*>2<.*>137<", tasks, re.DOTALL)
    assert "name: train # &lt;b&gt;" in page
    assert f'href="/api/workflow/{workflow.name}/spec"' in page


def test_who_may_enter_a_running_task_sees_the_commands(browser, pool):
    workflow = workflow_in(pool, status="RUNNING", submitted_by="ann")
    Task.objects.update(status="RUNNING")
    assert "osmo-topology exec" not in section(page_of(browser, workflow), "tasks")
    Pool.objects.update(allow_exec=True, allow_port_forward=True)
    tasks = section(page_of(browser, workflow), "tasks")
    assert f"<code>osmo-topology exec {workflow.name} task-0 -it</code>" in tasks
    assert f"<code>osmo-topology port-forward {workflow.name} task-0 8888</code>" in tasks
    Workflow.objects.update(submitted_by="ben")
    assert "osmo-topology exec" not in section(page_of(browser, workflow), "tasks")


def test_a_group_shows_what_follows_a_loss(browser, pool):
    workflow = workflow_in(pool)
    set_frozen(workflow.groups.get(), recovery={"preempted": "requeue", "node_lost": "task"})
    groups = section(page_of(browser, workflow), "groups")
    assert "<td>preempted: requeue, node lost: task, failed: fail, at most 3</td>" in groups


def test_a_group_that_lacks_a_place_is_told_with_the_nearest_domains(browser, pool):
    workflow = workflow_in(pool, pods=3)
    requires_a_rack(workflow)
    waits(workflow)

    page = page_of(browser, workflow)

    why = section(page, "why")
    assert "No rack has room for 2 tasks." in why
    assert "What helps:" in why
    assert "Never fits" in why
    assert "z1/r0 2 1" in words(why)
    assert "No rack has room for 2 tasks." in section(page, "status")


def test_a_remark_beside_an_explanation_is_shown_as_it_is(browser, pool, monkeypatch):
    workflow = workflow_in(pool)
    waits(workflow, why="upstream")
    wait = WaitExplanation(
        group="workers",
        status="SCHEDULING",
        why=Why.QUOTA,
        sentence="Over.",
        since=None,
        evidence={"queue": "q1", "rows": [{"gpus_used": 8}]},
        preferences=None,
        report=None,
        conditions=(),
        recovery="",
        avoided_nodes=(),
        explained_at=timezone.now(),
        beside=WaitingBeside(0, 0),
    )
    monkeypatch.setattr(explanations, "explain_waits", lambda groups, **options: [wait])
    why = section(page_of(browser, workflow), "why")
    assert "<summary>Evidence</summary>" in why
    assert re.search(r"<dt>queue</dt><dd>q1", why)
    assert re.search(r"gpus used</th>.*<td>8</td>", why)


def test_a_compute_domain_is_shown_clique_by_clique_with_what_is_missing(browser, pool):
    workflow = workflow_in(pool, pods=0, status="RUNNING")
    group = workflow.groups.get()
    for number in range(3):
        TaskFactory(group=group, node_name=f"node-{number}", status="RUNNING", placement__claims_channel=True)
    nodes = [
        {"name": "node-0", "cliqueID": "c0", "status": "Ready"},
        {"name": "node-2", "cliqueID": "c1", "status": "NotReady"},
    ]
    ObservedObject.objects.create(
        cluster=pool.backend.cluster,
        kind="ComputeDomain",
        namespace=group.placement["namespace"],
        name="cd",
        uid="u",
        group_uuid=group.pk,
        digest={"status": {"status": "NotReady", "nodes": nodes}},
        seen_at=timezone.now(),
    )
    shown = section(page_of(browser, workflow), "domains")
    assert "2 of 3 nodes have joined it, 1 ready. It spans 2 cliques" in shown
    assert re.search(r"c0</th>.*Ready.*1 of 1.*node-0", shown, re.DOTALL)
    assert re.search(r"c1</th>.*Not ready.*0 of 1.*node-2 \(not ready\)", shown, re.DOTALL)
    assert re.search(r"not joined: <span class=\"mono\">node-1<", shown)


def test_the_timeline_has_the_newest_last(browser, pool):
    workflow = workflow_in(pool)
    now = timezone.now()
    for number, reason in enumerate(("Submitted", "Scheduled")):
        Event.objects.create(
            workflow=workflow,
            time=now + timedelta(seconds=number),
            source="osmo-topology",
            reason=reason,
            message=f"said {number}",
            warning=bool(number),
            dedupe=reason,
        )
    shown = section(page_of(browser, workflow), "events")
    assert shown.index("Submitted") < shown.index("Scheduled")
    assert "Warning: </span>Scheduled" in shown
    assert f'<time datetime="{now.isoformat(timespec="microseconds")}">' in shown


def test_a_hidden_workflow_and_a_missing_one_are_the_same_page(browser, pool, settings):
    settings.DEFAULT_ROLES = []
    workflow = workflow_in(pool)
    policies = [{"actions": ["workflow:Read"], "resources": ["pool/elsewhere"]}]
    Role.objects.create(name="reader", policies=policies)
    User.objects.get(username="ann").role_assignments.create(role="reader")
    pages = [browser.get(f"/ui/workflows/{name}") for name in (workflow.name, "none-1")]
    assert [page.status_code for page in pages] == [404, 404]
    varies = rf'{workflow.name}|none-1|<code>\w+</code>|value="\w+"'
    texts = {re.sub(varies, "", page.content.decode()) for page in pages}
    assert len(re.findall(r"<h1>There is nothing here</h1>", "".join(texts))) == len(texts) == 1


def test_the_variables_given_at_submission_are_shown(browser, pool):
    page = page_of(browser, workflow_in(pool, env_vars=["SIZE=7", "MODE=a=b", "SIZE=8", f"X={HOSTILE}"]))
    assert "Variables given at submission (3)" in page
    assert "SIZE=8" in page
    assert "SIZE=7" not in page
    assert "MODE=a=b" in page
    assert HOSTILE not in page


def test_hostile_text_stays_text(browser, pool):
    workflow = workflow_in(
        pool,
        spec=HOSTILE,
        submitted_by=HOSTILE,
        labels={HOSTILE: HOSTILE},
        tags=[HOSTILE],
        warnings=[HOSTILE],
    )
    group = workflow.groups.get()
    TaskGroup.objects.filter(pk=group.pk).update(name=HOSTILE[:40], failure_message=HOSTILE)
    TaskGroupFactory(pool=pool, workflow=workflow, name=f"{HOSTILE[:40]}2").upstream.add(group)
    waits(workflow, reason=HOSTILE)
    group.tasks.update(node_name=HOSTILE, failure_message=HOSTILE)
    group.tasks.filter(lead=True).update(name=HOSTILE)
    Event.objects.create(
        workflow=workflow, time=timezone.now(), source="<b>", reason=HOSTILE, message=HOSTILE, dedupe="x"
    )
    page = page_of(browser, workflow)
    assert page.count("&lt;script&gt;") >= 10
    assert "<script>" not in page
    assert not re.search(r"\sstyle=|<style|\son[a-z]+=", page)


def test_a_page_costs_the_same_with_two_tasks_and_with_512(browser, pool, django_assert_max_num_queries):
    small, large = workflow_in(pool, pods=2), workflow_in(pool, pods=0)
    group = large.groups.get()
    task = TaskFactory.build(group=group)
    Task.objects.bulk_create(
        Task(group=group, position=n, name=f"t{n}", status="SCHEDULING", spec=task.spec, pod_name=f"p{n}")
        for n in range(512)
    )
    for workflow in (small, large):
        waits(workflow, why="upstream", reason="It starts later.")
        with django_assert_max_num_queries(15):
            page = page_of(browser, workflow)
    assert "1 to 100 of 512" in page
    assert "t99</th>" in page
    assert "t100</th>" not in page
    rest = section(page_of(browser, large, "?tasks_from=500"), "tasks")
    assert "501 to 512 of 512" in rest
    assert "t511</th>" in rest


def test_a_page_that_did_not_change_is_not_sent_again(browser, pool):
    workflow = workflow_in(pool)
    address = f"/ui/workflows/{workflow.name}"
    browser.get(address)  # brings the cookie of the forms
    first = browser.get(address)
    again = browser.get(address, headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    workflow.groups.get().tasks.update(status="RUNNING")
    assert browser.get(address, headers={"If-None-Match": first["ETag"]}).status_code == 200


def test_a_browser_is_not_told_that_another_users_page_is_its_own(browser, pool):
    workflow = workflow_in(pool)
    etag = browser.get(f"/ui/workflows/{workflow.name}")["ETag"]
    other = Client()
    other.force_login(User.objects.create_user("bob"))
    answer = other.get(f"/ui/workflows/{workflow.name}", headers={"If-None-Match": etag})
    assert answer.status_code == 200


def test_many_loads_of_a_waiting_workflow_judge_it_once(browser, pool, monkeypatch):
    asked = []
    explain_waits = explanations.explain_waits

    def counted(groups, **options):
        asked.append(len(groups))
        return explain_waits(groups, **options)

    monkeypatch.setattr(explanations, "explain_waits", counted)
    workflow = workflow_in(pool)
    requires_a_rack(workflow)
    waits(workflow)
    for _ in range(3):
        page_of(browser, workflow)
    assert asked == [1]
    waits(workflow, reason="Now it is something else.")
    assert "something else" in page_of(browser, workflow)
    assert asked == [1, 1]


def test_a_workflow_that_ended_refreshes_itself_no_more(browser, pool):
    workflow = workflow_in(pool)
    assert "data-live" in page_of(browser, workflow)
    Workflow.objects.filter(pk=workflow.pk).update(status="COMPLETED", end_time=timezone.now())
    workflow.groups.update(status="COMPLETED", end_time=timezone.now())
    assert "data-live" in page_of(browser, workflow)  # it is still being taken down
    workflow.groups.update(released_at=timezone.now())
    assert "data-live" not in page_of(browser, workflow)


@pytest.mark.parametrize(
    "query", ["?tasks_from=-1", "?tasks_from=x", "?what=1", "?tasks_from=99999999999", "?tasks_in=SAD"]
)
def test_a_refused_query_is_a_page_that_says_so(browser, pool, query):
    answer = browser.get(f"/ui/workflows/{workflow_in(pool).name}{query}")
    assert answer.status_code == 400
    assert "<h1>This could not be understood</h1>" in answer.content.decode()


def test_tasks_beyond_the_last_are_an_empty_table(browser, pool):
    assert "No tasks." in page_of(browser, workflow_in(pool), "?tasks_from=1000")


def test_the_placement_of_a_group_is_shown_beside_its_request(browser, pool):
    workflow = workflow_in(pool, status="RUNNING")
    row = {
        "path": [{"key": "rack", "group": "r"}],
        "key": "rack",
        "required": False,
        "outcome": "degraded",
        "domains": [{"path": ["z1", "r0"], "tasks": 1}, {"path": ["z1", "r1"], "tasks": 1}],
        "domain_count": 2,
        "outside": 0,
    }
    result = {"outcome": "degraded", "at": "2026-01-01T12:00:00", "places": "x", "sets": [row]}
    workflow.groups.update(placement_result=result)
    shown = section(page_of(browser, workflow), "outcome")
    assert "Preference missed" in shown
    assert "z1/r0 (1 task) and z1/r1 (1 task)" in shown


def test_of_many_tasks_those_in_one_status_can_be_shown_alone(browser, pool):
    workflow = workflow_in(pool, pods=0, status="RUNNING")
    for number in range(120):
        TaskFactory(group=workflow.groups.get(), status="FAILED" if number > 10 else "RUNNING")
    tasks = section(page_of(browser, workflow), "tasks")
    assert re.search(r'href="\?tasks_in=FAILED#tasks".*109 failed', tasks)
    tasks = section(page_of(browser, workflow, "?tasks_in=FAILED"), "tasks")
    assert "1 to 100 of 109" in tasks
    assert 'href="?tasks_in=FAILED&amp;tasks_from=100#tasks"' in tasks
    assert "task-10</th>" not in tasks
    assert "task-11</th>" in tasks


@pytest.mark.parametrize(
    "name",
    ["x" * 3000, "%C3%A9", "..", "a%2Fb", "-", "train-99999999999999999999", "%F0%9F%92%A9", "%FF", "%27"],
)
def test_a_name_of_no_workflow_is_a_page_that_says_so(browser, name):
    for what in ("", "/cancel", "/again"):
        answer = browser.get(f"/ui/workflows/{name}{what}")
        assert (answer.status_code, answer["Content-Type"]) == (404, "text/html; charset=utf-8")
