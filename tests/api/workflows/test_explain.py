"""Why a workflow waits, asked of the service: one reason a group, its evidence, what would help."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from tests.builders.forms import put_form
from tests.factories import (
    RACK,
    ZONE,
    NodeFactory,
    PoolFactory,
    TaskFactory,
    TaskGroupFactory,
    WorkflowFactory,
    foreign_usage,
)
from workflows.api import shapes
from workflows.explain.report import explain_waits
from workflows.models import Event, ObservedObject, ObservedPod, TaskGroup, Workflow

pytestmark = pytest.mark.django_db
REQUIRED = [{"key": "rack", "group": "r", "required": True}]


@pytest.fixture
def pool():
    made = PoolFactory(name="train", levels=[ZONE, RACK])
    for name in ("n1", "n2"):
        NodeFactory(cluster=made.backend.cluster, name=name, labels={ZONE.label: "a", RACK.label: "r1"})
    return made


def waiting(pool, *, why, text, tasks=2, **fields):
    group = TaskGroupFactory(
        pool=pool, workflow=WorkflowFactory(pool=pool), pods=0, status="SCHEDULING", name="workers"
    )
    for number in range(tasks):
        task = TaskFactory(group=group, name=f"t{number}", placement__gpu=8)
        task.spec = {**task.spec, "requirements": REQUIRED}
        task.save()
    TaskGroup.objects.filter(pk=group.pk).update(
        waiting_why=why, waiting_reason=text, waiting_since=timezone.now(), **fields
    )
    return group.workflow


def explained(api, workflow):
    answer = api.get(f"/api/workflow/{workflow.name}/explain")
    assert answer.status_code == 200, answer.json()
    return answer.json()


def test_a_group_that_lacks_a_place_is_told_which_domain_is_nearest(api, pool):
    holder = TaskGroupFactory(pool=pool, workflow=WorkflowFactory(pool=pool), pods=0, status="RUNNING")
    TaskFactory(group=holder, node_name="n2", placement__gpu=8)
    NodeFactory(cluster=pool.backend.cluster, name="n3", labels={ZONE.label: "a", RACK.label: "r2"})
    workflow = waiting(pool, why="capacity", text="No rack has room for 2 tasks.")

    reply = explained(api, workflow)

    (group,) = reply["groups"]
    assert set(reply) == set(shapes.ExplanationShape.model_fields)
    assert set(group) == set(shapes.GroupExplanationShape.model_fields)
    assert (group["why"], group["feasibility"]["verdict"]) == ("topology", "not_now")
    assert group["sentence"].startswith("No rack has room for 2 tasks. It does not fit now: the nearest rack")
    assert holder.workflow.name in group["sentence"]
    assert group["sentence"].endswith("The pool has room for 2 such tasks in all, but not in one place.")
    assert "nearest domain" in group["help"]
    assert reply["sentence"] == f'Group "workers": {group["sentence"]}'


def test_without_room_in_the_whole_pool_it_is_capacity(api, pool):
    holder = TaskGroupFactory(pool=pool, workflow=WorkflowFactory(pool=pool), pods=0, status="RUNNING")
    TaskFactory(group=holder, node_name="n2", placement__gpu=8)
    (group,) = explained(api, waiting(pool, why="topology", text="No rack."))["groups"]
    assert group["why"] == "capacity"


def test_room_that_a_group_holds_itself_is_not_in_its_way(api, pool):
    workflow = waiting(pool, why="capacity", text="Not enough room.")
    workflow.groups.get().tasks.filter(name="t0").update(node_name="n1")
    (group,) = explained(api, workflow)["groups"]
    assert group["feasibility"]["verdict"] == "now"


def test_reasons_that_nodes_say_nothing_about_come_without_a_verdict(api, pool):
    workflow = waiting(pool, why="upstream", text='It starts when group "prep" has completed.')
    (group,) = explained(api, workflow)["groups"]
    assert (group["feasibility"], group["help"]) == (None, "Nothing to do: it starts by itself.")


def test_patience_that_is_left_is_the_reason(api, pool):
    line = {
        "set": [{"key": "rack", "group": "r"}],
        "key": "rack",
        "label": RACK.label,
        "requirementType": "preferred",
        "tasks": 2,
        "subgroup": "",
        "held_by": None,
        "waitSeconds": 600,
        "relaxed": False,
    }
    since = timezone.now() - timedelta(seconds=10)
    workflow = waiting(pool, why="topology", text="No rack.", constraints=[line], unplaced_since=since)
    (group,) = explained(api, workflow)["groups"]
    assert group["why"] == "patience"
    assert "then as a preference" in group["sentence"]


def test_nobody_is_sent_to_a_scheduler_that_was_asked_a_moment_ago(api, pool):
    workflow = waiting(pool, why="scheduler_silent", text="It has given no reason.")
    (group,) = explained(api, workflow)["groups"]
    assert group["help"] == "Nothing to do: a scheduler answers within seconds."
    TaskGroup.objects.update(waiting_since=timezone.now() - timedelta(minutes=1))
    (group,) = explained(api, workflow)["groups"]
    assert group["help"] == "An administrator checks whether the scheduler runs."


def test_a_workflow_that_runs_waits_for_nothing(api):
    group = TaskGroupFactory(status="RUNNING")
    Workflow.objects.filter(pk=group.workflow_id).update(status="RUNNING")
    reply = explained(api, group.workflow)
    assert (reply["groups"], reply["sentence"]) == ([], "It is RUNNING; no group of it waits.")


def test_a_workflow_that_no_worker_has_reconciled_yet_is_not_said_to_wait_for_nothing(api):
    group = TaskGroupFactory(status="SUBMITTING")
    Workflow.objects.filter(pk=group.workflow_id).update(status="PENDING")
    reply = explained(api, group.workflow)
    assert reply["sentence"].startswith("It is PENDING, and no worker has recorded yet what it waits for.")


def test_the_workflow_says_it_in_one_sentence_and_what_can_be_done_about_comes_first(api, pool):
    workflow = waiting(pool, why="upstream", text='It starts when group "prep" has completed.')
    known = {"scheduler_says": ["no"]}
    TaskGroupFactory(
        pool=pool, workflow=workflow, pods=0, status="SCHEDULING", name="prep", waiting_why="image",
        waiting_reason="Image x of task a cannot be pulled (ErrImagePull).", waiting_evidence=known,
    )  # fmt: skip
    want = 'Group "prep": Image x of task a cannot be pulled (ErrImagePull). 1 more group waits.'
    assert api.get(f"/api/workflow/{workflow.name}").json()["explanation"] == want
    reply = explained(api, workflow)
    assert reply["sentence"] == want
    assert [group["evidence"] for group in reply["groups"]] == [{}, known]
    skipped = api.get(f"/api/workflow/{workflow.name}?skip_groups=true").json()
    assert skipped["explanation"] is None


def test_a_workflow_that_failed_says_why(api):
    group = TaskGroupFactory(status="FAILED_IMAGE_PULL", failure_message="Task a: ErrImagePull: no such host")
    Workflow.objects.filter(pk=group.workflow_id).update(status="FAILED_IMAGE_PULL")
    want = f'It is FAILED_IMAGE_PULL. Group "{group.name}": Task a: ErrImagePull: no such host'
    assert api.get(f"/api/workflow/{group.workflow.name}").json()["explanation"] == want
    assert explained(api, group.workflow)["sentence"] == want


@pytest.mark.parametrize(("known", "unseen"), [(True, "(a quota"), (False, "(other tenants' pods, a quota")])
def test_room_is_not_claimed_against_a_scheduler_that_finds_none(api, pool, known, unseen):
    if known:
        foreign_usage(pool.backend.cluster, "n1", cpu=100)
    workflow = waiting(pool, why="capacity", text="No rack has room for 2 tasks.")

    (group,) = explained(api, workflow)["groups"]

    assert (group["feasibility"]["verdict"], group["why"]) == ("now", "capacity")
    assert group["sentence"].startswith("No rack has room for 2 tasks. That is what its scheduler says")
    assert unseen in group["sentence"]
    assert "fits now" not in group["sentence"]


WRITTEN = {
    "by a pod group": ({"conditions": [{"message": "no room"}]}, "09:30:00 UTC"),
    "by the pods, where the pod group says nothing": ({}, "2026-05-03 08:00:00 UTC"),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_the_time_of_the_schedulers_word_is_that_of_the_object_that_has_it(pool, case):
    """A pod group of half past nine, its pods of yesterday, and a ComputeDomain that changed last."""
    status, want = WRITTEN[case]
    workflow = waiting(pool, why="capacity", text="No rack has room for 2 tasks.")
    group = TaskGroup.objects.get(workflow=workflow)
    cluster, namespace = pool.backend.cluster, group.placement["namespace"]
    now = datetime(2026, 5, 4, 10, tzinfo=UTC)
    home = {"cluster": cluster, "namespace": namespace, "uid": "u", "group_uuid": group.pk}
    for kind, hour, minute in (("PodGroup", 9, 30), ("ComputeDomain", 9, 59)):
        at = now.replace(hour=hour, minute=minute)
        ObservedObject.objects.create(**home, kind=kind, name=kind, digest={"status": status}, seen_at=at)
    ObservedPod.objects.create(**home, name="p", phase="Pending", seen_at=now.replace(day=3, hour=8))
    (wait,) = explain_waits([group], user=User(username="ann", is_superuser=True), now=now)
    assert f"written at {want}." in wait.sentence


TEAM = {"key": "team", "effect": "NoSchedule"}
REMEDIES = {
    "cordoned": ({"unschedulable": True}, "open", set(), []),
    "tainted": (
        {"taints": [{"key": "team", "effect": "NoSchedule"}]},
        "tolerate",
        set(),
        ["team:NoSchedule"],
    ),
    "unlabelled": ({"labels": {ZONE.label: "a"}}, "label", {RACK.label}, []),
    "without work": ({}, None, set(), []),
}


@pytest.mark.parametrize("case", REMEDIES)
def test_what_would_help_is_told_to_programs_too(api, pool, case):
    changes, kind, labels, taints = REMEDIES[case]
    stands = {taint["key"]: "2026-01-01T00:00:00+00:00" for taint in changes.get("taints", [])}
    pool.backend.cluster.nodes.update(taints_since=stands, **changes)
    (group,) = explained(api, waiting(pool, why="capacity", text="Not enough room."))["groups"]
    remedies = group["feasibility"]["remedies"]
    assert [remedy["kind"] for remedy in remedies] == [kind][: len(remedies)]
    assert bool(remedies) == bool(kind)
    for remedy in remedies:
        assert (remedy["nodes"], len(remedy["names"]), remedy["after_work"]) == (2, 2, False)
        assert labels <= remedy["labels"].keys()
        assert [entry["taint"] for entry in remedy["taints"]] == taints


def test_the_nearest_domain_says_since_when_its_nodes_are_tainted(api, pool):
    workflow, since = (
        waiting(pool, why="topology", text="No rack has room."),
        timezone.now().replace(microsecond=0),
    )
    pool.backend.cluster.nodes.update(taints=[TEAM], taints_since={"team": since.isoformat()})
    (group,) = explained(api, workflow)["groups"]
    (tainted,) = group["feasibility"]["sets"][0]["nearest"][0]["tainted"]
    assert (tainted["taint"], tainted["since"]) == ("team:NoSchedule", f"{since:%Y-%m-%dT%H:%M:%S}Z")


def test_younger_work_of_higher_priority_goes_before_it_and_older_work_of_lower_does_not(api, pool):
    older = waiting(pool, why="topology", text="No rack has room for 2 tasks.")
    for name, priority in (("urgent", "HIGH"), ("late", "NORMAL"), ("cheap", "LOW")):
        workflow = WorkflowFactory(pool=pool, base_name=name, priority=priority)
        group = TaskGroupFactory(pool=pool, workflow=workflow, pods=0, status="SCHEDULING")
        TaskFactory(group=group, status="SCHEDULING", placement__gpu=64)

    (group,) = explained(api, older)["groups"]

    before = group["feasibility"]["before"]
    assert (before["groups"], before["younger"]) == (1, 1)
    assert before["workflows"][0].startswith("urgent")


def pinned(workflow, *, times):
    """Pinned to rack r1, at these numbers of seconds before now."""
    pins = [{"set": [{"key": "rack", "group": "r"}], "domain": ["a", "r1"]}]
    put_form(TaskGroup.objects.filter(workflow=workflow), pins=pins)
    group, now = TaskGroup.objects.get(workflow=workflow), timezone.now()
    for before in times:
        time = now - timedelta(seconds=before)
        Event.objects.create(
            workflow=workflow, group=group, reason="SetsPinned", time=time, source="test", dedupe=f"{before}"
        )


@pytest.fixture
def kept_away(pool):
    """A gang waits for a rack whose nodes are in use, and rack r2 has room."""
    holder = TaskGroupFactory(pool=pool, workflow=WorkflowFactory(pool=pool), pods=0, status="RUNNING")
    for node in ("n1", "n2"):
        TaskFactory(group=holder, node_name=node, placement__gpu=8)
    for name in ("n3", "n4"):
        NodeFactory(cluster=pool.backend.cluster, name=name, labels={ZONE.label: "a", RACK.label: "r2"})
    return waiting(pool, why="capacity", text="Not enough room.")


@pytest.mark.parametrize(
    ("times", "end"),
    [
        pytest.param([10], r"chooses that place at \d\d:\d\d:\d\d UTC\.", id="chosen lately"),
        pytest.param([400], r"chooses that place now\.", id="chosen long ago"),
        pytest.param([400, 800, 900], r"after 3 choices it keeps the last\.", id="too often"),
    ],
)
def test_a_gang_that_is_kept_where_no_room_is_says_that_and_when_it_leaves(api, kept_away, times, end):
    pinned(kept_away, times=times)
    (group,) = explained(api, kept_away)["groups"]
    assert re.search(
        rf'Node labels keep rack "r" in a/r1, where there is no room for it\. .*{end}$', group["sentence"]
    )
    assert "not observed" not in group["sentence"]


def test_a_pinned_gang_without_room_anywhere_is_counted_on_all_nodes_of_the_pool(api, kept_away, pool):
    holder = TaskGroupFactory(pool=pool, workflow=WorkflowFactory(pool=pool), pods=0, status="RUNNING")
    TaskFactory(group=holder, node_name="n3", placement__gpu=8)
    pinned(kept_away, times=[10])
    (group,) = explained(api, kept_away)["groups"]
    assert group["feasibility"]["room"] == 1
    assert "The service chooses another place once one has room." in group["sentence"]
