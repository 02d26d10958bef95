"""The page of a wide workflow reads what it shows, and leads to the rest."""

from collections import Counter

import pytest
from django.db.models.signals import post_init
from django.utils import timezone

from tests.api.pages.reading import text
from tests.builders.wide import wide_workflow
from workflows import group_reads
from workflows.models import Attempt, Task, TaskGroup

pytestmark = pytest.mark.django_db

WIDE = 450


@pytest.fixture
def wide():
    workflow = wide_workflow(groups=WIDE, status="RUNNING", attempt_number=3)
    workflow.status = "RUNNING"
    workflow.save()
    return workflow


@pytest.fixture
def rows_read():
    """How many model objects were made, by model."""
    made = Counter()

    def count(sender, **_):
        made[sender] += 1

    post_init.connect(count)
    yield made
    post_init.disconnect(count)


def page_of(browser, workflow, query=""):
    page = browser.get(f"/ui/workflows/{workflow.name}{query}")
    assert page.status_code == 200, page.content.decode()
    return page


def test_a_page_reads_the_rows_that_it_shows(browser, wide, rows_read):
    now = timezone.now()
    Attempt.objects.bulk_create(
        Attempt(
            group=group, number=n, status="FAILED", loss="failed", counted=True, began_at=now, end_time=now
        )
        for group in wide.groups.all()
        for n in (1, 2)
    )
    rows_read.clear()
    page = text(page_of(browser, wide))
    assert rows_read[TaskGroup] == group_reads.GROUPS_AT_ONCE
    assert rows_read[Attempt] == 50
    assert rows_read[Task] == 0
    assert f"All {WIDE} tasks: " in page


def test_pages_lead_to_all_groups_and_keep_the_tasks_that_are_shown(browser, wide):
    first = page_of(browser, wide, "?tasks_from=100").content.decode()
    assert "Groups 1 to 200." in first
    assert 'href="?tasks_from=100&amp;groups_from=200#groups" rel="next"' in first
    assert 'href="?tasks_from=200#tasks" rel="next"' in first
    second = page_of(browser, wide, "?groups_from=200").content.decode()
    assert 'href="?groups_from=0#groups" rel="prev"' in second
    assert 'href="?groups_from=400#groups" rel="next"' in second
    assert 'href="?groups_from=200&amp;tasks_from=100#tasks" rel="next"' in second
    last = page_of(browser, wide, "?groups_from=400").content.decode()
    assert "Groups 401 to 450." in last
    assert 'rel="next"' not in last.partition('id="tasks"')[0]
    assert [f">group-{n}</th>" in last for n in (399, 400, 449)] == [False, True, True]


def test_groups_beyond_the_last_are_an_empty_table(browser, wide):
    page = page_of(browser, wide, "?groups_from=1000")
    assert "No groups." in page.content.decode()
    assert f"All {WIDE} tasks: " in text(page)


def test_the_status_names_a_group_that_waits_and_is_not_on_the_page(browser, wide):
    waiting = wide.groups.filter(position__gte=430)
    waiting.update(status="SCHEDULING", waiting_why="capacity", waiting_reason="No room.")
    assert 'Group "group-430": No room. 19 more groups wait.' in text(page_of(browser, wide))


def test_the_status_counts_groups_that_wait_on_other_pages(browser, wide):
    wide.groups.update(status="SCHEDULING", waiting_why="upstream", waiting_reason="It starts later.")
    assert f"Group group-0: It starts later. {WIDE - 1} more groups wait." in text(page_of(browser, wide))


def test_a_page_of_a_workflow_with_objects_left_on_another_page_refreshes_itself(browser, wide):
    now = timezone.now()
    wide.groups.update(status="COMPLETED", end_time=now, released_at=now)
    wide.groups.filter(position=449).update(released_at=None)
    type(wide).objects.update(status="COMPLETED", end_time=now)
    assert "data-live" in page_of(browser, wide).content.decode()


def test_a_group_after_many_names_the_first_of_them(browser, wide):
    first, *others = wide.groups.order_by("position")[:200]
    first.upstream.add(*others)
    shown = page_of(browser, wide).content.decode()
    assert ", ".join(f"group-{n}" for n in range(1, 21)) + " and 179 more</td>" in shown
    assert shown.count("group-150,") == 0
