"""News that is sought: which waits and verdicts are news, and of which nothing is sent."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from pools.models import Node
from tests.api.workflows.specs import task, text
from tests.builders.forms import put_form
from tests.factories import RACK, ZONE, NodeFactory, PoolFactory
from web.env import environment
from workflows.models import NewsItem, TaskGroup, Workflow
from workflows.news import outbox
from workflows.services import overdue_news

pytestmark = pytest.mark.django_db

HOOK = "https://hooks.example.org/"
LABELS = {ZONE.label: "a", RACK.label: "r1"}


@pytest.fixture(autouse=True)
def _listed(monkeypatch):
    monkeypatch.setattr(environment(), "notify_hosts", ["https://hooks.example.org"])


@pytest.fixture
def pool():
    """One rack with nodes of four, two, four and two GPUs."""
    made = PoolFactory(name="mixed", levels=[ZONE, RACK])
    for number, gpus in enumerate((4, 2, 4, 2)):
        node(made, f"m{number}", gpus=gpus)
    return made


def node(pool, name, *, gpus, rack="r1"):
    room = {"nvidia.com/gpu": str(gpus), "cpu": "64", "memory": "512Gi", "pods": "110"}
    labels = {**LABELS, RACK.label: rack}
    NodeFactory(cluster=pool.backend.cluster, name=name, labels=labels, allocatable=room)


@pytest.fixture
def submit(api, pool):
    """Submit groups each with a driver of four GPUs and three workers of two, in one rack."""

    def post(*kinds, groups=1, gpus=4, waits_after="1h", client=api, **requirement):
        topology = [{"key": "rack", "group": "r", **requirement}]
        resources = {
            name: {"cpu": 1, "gpu": count, "memory": "1Gi", "topology": topology}
            for name, count in (("driver", gpus), ("worker", 2))
        }
        rows = []
        for number in range(groups):
            tasks = [task(f"driver-{number}", resource="driver", lead=True)]
            tasks += [task(f"worker-{number}-{n}", resource="worker") for n in range(3)]
            rows.append({"name": f"g{number}", "tasks": tasks})
        spec = {"name": "train", "resources": resources, "groups": rows}
        spec["notify"] = [{"webhook": HOOK, "kinds": list(kinds), "waits_after": waits_after}]
        answer = client.post("/api/pool/mixed/workflow", {"file": text(spec)}, format="json")
        assert answer.status_code == 200, answer.json()
        return Workflow.objects.get(name=answer.json()["name"])

    return post


def wait(why="capacity", *, seconds=7200):
    since = timezone.now() - timedelta(seconds=seconds)
    TaskGroup.objects.update(
        waiting_why=why,
        waiting_reason="There is no room.",
        waiting_since=since,
        processing_start_time=since,
    )


def groups_in_news(kind="waits"):
    return sorted(item.facts["group"] for item in NewsItem.objects.filter(kind=kind))


def test_no_verdict_rests_on_pins_that_can_be_taken_away(submit, pool):
    submit("never")
    assert TaskGroup.objects.get().form["pins"]
    Node.objects.all().delete()
    node(pool, "small", gpus=1)
    for number, gpus in enumerate((4, 2, 4, 2)):
        node(pool, f"n{number}", gpus=gpus, rack="r2")
    wait()
    overdue_news.announce_nevers()
    assert groups_in_news("never") == []


def test_nothing_is_never_while_a_preference_may_still_give_way(submit):
    submit("never", gpus=64, requirementType="preferred", waitSeconds=600)
    put_form(TaskGroup.objects.all(), preference_levels=0)
    wait()
    overdue_news.announce_nevers()
    assert groups_in_news("never") == []
    put_form(TaskGroup.objects.all(), stage=1)
    overdue_news.announce_nevers()
    assert groups_in_news("never") == ["g0"]


def test_nothing_is_never_while_preferences_may_be_freed(submit, pool):
    pool.free_preferences_after = 600
    pool.save()
    submit("never", gpus=64, requirementType="preferred")
    wait()
    overdue_news.announce_nevers()
    assert groups_in_news("never") == []
    put_form(TaskGroup.objects.all(), preference_levels=0)
    overdue_news.announce_nevers()
    assert groups_in_news("never") == ["g0"]


def test_each_group_that_waits_is_news_once_an_attempt(submit):
    submit("waits", groups=2)
    wait()
    for _ in range(2):
        overdue_news.announce_waits()
    assert groups_in_news() == ["g0", "g1"]
    TaskGroup.objects.filter(name="g1").update(attempt_number=2)
    overdue_news.announce_waits()
    assert groups_in_news() == ["g0", "g1", "g1"]


def test_a_wait_counts_from_the_end_of_groups_upstream(submit):
    submit("waits")
    wait()
    TaskGroup.objects.update(processing_start_time=Now())
    overdue_news.announce_waits()
    assert groups_in_news() == []
    TaskGroup.objects.update(processing_start_time=Now() - timedelta(hours=2))
    overdue_news.announce_waits()
    assert groups_in_news() == ["g0"]


@pytest.mark.parametrize("why", ["upstream", "creating", "starting"])
def test_a_group_that_goes_on_or_waits_for_others_of_its_workflow_is_not_overdue(submit, why):
    submit("waits")
    wait(why)
    overdue_news.announce_waits()
    assert groups_in_news() == []


def test_waits_of_one_workflow_are_bounded(submit):
    submit("waits", groups=outbox.MOST_OF_A_KIND + 1)
    wait()
    for _ in range(2):
        overdue_news.announce_waits()
    assert len(groups_in_news()) == outbox.MOST_OF_A_KIND


def test_a_target_at_its_bound_takes_no_place_of_another_in_a_turn(submit, monkeypatch):
    submit("waits", groups=outbox.MOST_OF_A_KIND + 8)
    wait()
    overdue_news.announce_waits()
    other = submit("waits")
    wait()
    monkeypatch.setattr(overdue_news, "MOST_WAITS", 1)
    overdue_news.announce_waits()
    assert NewsItem.objects.filter(workflow_uuid=other.pk).exists()


def test_turns_are_shared_by_submitters(submit, api, as_user, monkeypatch):
    monkeypatch.setattr(overdue_news, "MOST_WAITS", 2)
    submit("waits", groups=8)
    other = submit("waits", client=as_user("ben"))
    wait()
    overdue_news.announce_waits()
    assert NewsItem.objects.filter(workflow_uuid=other.pk).exists()


def test_a_group_that_cannot_be_judged_keeps_no_other_from_its_verdict(submit):
    submit("never", groups=2, gpus=64)
    wait()
    first = TaskGroup.objects.get(name="g0")
    first.tasks.update(spec={})
    overdue_news.announce_nevers()
    assert groups_in_news("never") == ["g1"]
