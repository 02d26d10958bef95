"""The list of workflows: the newest first, narrowed by a form, with why the waiting ones wait."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from tests.api.pages.reading import text
from tests.factories import PoolFactory, TaskGroupFactory, WorkflowFactory
from workflows.models import Workflow

pytestmark = pytest.mark.django_db


@pytest.fixture
def pool():
    return PoolFactory(name="train")


def names(browser, query=""):
    answer = browser.get(f"/ui/workflows{query}")
    assert answer.status_code == 200, answer.content.decode()
    return re.findall(r'<th scope="row"><a href="/ui/workflows/([^"]+)"', answer.content.decode())


def test_the_newest_comes_first_and_others_only_if_asked_for(browser, pool):
    for number, who in enumerate(("ann", "bob", "ann")):
        made = WorkflowFactory(pool=pool, name=f"w-{number}", submitted_by=who)
        Workflow.objects.filter(pk=made.pk).update(submit_time=timezone.now() + timedelta(seconds=number))
    assert names(browser) == ["w-2", "w-0"]
    assert names(browser, "?whose=all") == ["w-2", "w-1", "w-0"]


def test_the_form_narrows_by_status_pool_and_name(browser, pool):
    for status in ("PENDING", "RUNNING", "COMPLETED", "FAILED_EVICTED"):
        WorkflowFactory(pool=pool, name=f"{status.lower()}-1", status=status)
    WorkflowFactory(pool=PoolFactory(name="other"), name="other-1", status="RUNNING")
    form = "?whose=mine&pool=train&name=&status="
    assert set(names(browser, form)) == {"pending-1", "running-1", "completed-1", "failed_evicted-1"}
    assert set(names(browser, f"{form}live")) == {"pending-1", "running-1"}
    assert names(browser, f"{form}failed") == ["failed_evicted-1"]
    assert names(browser, f"{form}COMPLETED") == ["completed-1"]
    assert names(browser, "?name=other") == ["other-1"]


def test_one_that_waits_says_why_and_one_that_has_ended_does_not(browser, pool):
    for name, status in (("w-1", "PENDING"), ("w-2", "COMPLETED")):
        group = TaskGroupFactory(pool=pool, workflow=WorkflowFactory(pool=pool, name=name, status=status))
        group.waiting_reason = f"{name} <waits>"
        group.save()
    page = browser.get("/ui/workflows").content.decode()
    assert "w-1 &lt;waits&gt;" in page
    assert "w-2 &lt;waits&gt;" not in page


def test_a_long_list_comes_in_pages_that_keep_the_form(browser, pool, django_assert_max_num_queries):
    for number in range(51):
        made = WorkflowFactory(pool=pool, name=f"w-{number}")
        TaskGroupFactory(pool=pool, workflow=made, pods=0, waiting_reason="Later.")
    with django_assert_max_num_queries(10):
        page = browser.get("/ui/workflows?pool=train").content.decode()
    older = re.search(r'<a href="([^"]+)" rel="next">', page)[1].replace("&amp;", "&")
    assert "pool=train" in older
    assert len(names(browser, older)) == 1
    assert 'rel="prev"' in browser.get(f"/ui/workflows{older}").content.decode()


def test_an_empty_list_says_so_and_offers_everybodys(browser):
    page = browser.get("/ui/workflows?status=live").content.decode()
    assert "No workflow of yours matches." in page
    assert 'href="?whose=all&amp;status=live"' in page


@pytest.mark.parametrize("query", ["?status=HAPPY", "?whose=hers", "?offset=-1", "?x=1", "?pool=%00"])
def test_a_query_that_the_form_would_not_send_is_refused_with_a_page(browser, query):
    answer = browser.get(f"/ui/workflows{query}")
    assert answer.status_code == 400
    assert "<h1>" in answer.content.decode()


@pytest.mark.parametrize(
    ("address", "meant"),
    [
        ("/ui/workflows?status=RUNING", "RUNNING"),
        ("/ui/workflows?status=Live", "live"),
        ("/ui/workflows/w-1?tasks_in=reschedulled", "RESCHEDULED"),
    ],
)
def test_a_mistyped_status_is_answered_with_what_is_accepted_and_what_was_meant(
    browser, pool, address, meant
):
    WorkflowFactory(pool=pool, name="w-1")
    answer = browser.get(address)
    assert answer.status_code == 400
    assert f'Did you mean "{meant}"?' in text(answer)
    assert meant in text(answer).partition("accepted are ")[2].partition(".")[0].split(", ")
