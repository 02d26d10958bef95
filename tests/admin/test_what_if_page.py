"""What if, as a form: the same question and the same answer as over REST."""

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from scheduling.topology.requirements import Requirement
from tests.admin.pools.conftest import shown_in_page
from tests.factories import RACK, ZONE, NodeFactory, PoolFactory, TaskFactory, TaskGroupFactory
from workflows.models import Workflow

pytestmark = pytest.mark.django_db


@pytest.fixture
def browser():
    browser = Client()
    browser.force_login(User.objects.create_user("ann", is_staff=True))
    return browser


@pytest.fixture
def pool():
    """A rack of three, one of one, and a group of three that waits for a rack."""
    made = PoolFactory(name="train", levels=[ZONE, RACK])
    for name, rack in (("n1", "r1"), ("n2", "r1"), ("n3", "r1"), ("n4", "r2")):
        labels = {ZONE.label: "a", RACK.label: rack}
        NodeFactory(cluster=made.backend.cluster, name=name, labels=labels)
    group = TaskGroupFactory(pool=made, pods=0)
    for _ in range(3):
        TaskFactory(group=group, placement__gpu=8, placement__requirements=(Requirement("rack", "r"),))
    return made


def address(pool):
    return f"/admin/pools/pool/{pool.pk}/what-if/"


def form_of(answer):
    return {bound.html_name: bound.value() or "" for bound in answer.context["form"]}


def test_the_page_of_a_pool_leads_to_the_form_and_the_form_answers(browser, pool):
    change = browser.get(f"/admin/pools/pool/{pool.pk}/change/").content.decode()
    (link,) = re.findall(r'href="([^"]*ask-what-if[^"]*)"', change)
    assert browser.get(link).headers["Location"] == address(pool)
    form = form_of(browser.get(address(pool)))

    page = browser.post(address(pool), form | {"drain": "[{rack: r1}]"})

    name = Workflow.objects.get().name
    assert shown_in_page(page, f"{name} group-0 3 would become impossible It fits now")
    assert shown_in_page(page, "1 would become impossible")
    assert shown_in_page(page, "3 nodes drained. No workflow of this service has pods there.")
    assert shown_in_page(page, "before rack 4 3 4 of 1, 1 of 2")
    assert shown_in_page(page, "after rack 1 1 1 of 1")


def test_keys_left_alone_are_not_asked_about_and_keys_taken_away_are(browser, pool):
    form = form_of(browser.get(address(pool)))
    assert shown_in_page(browser.post(address(pool), form), "stays as it is")
    fewer = form | {"topology_keys": f"- {{key: zone, label: {ZONE.label}}}"}
    page = browser.post(address(pool), fewer)
    assert shown_in_page(page, "It would be refused: ")
    assert shown_in_page(page, "the same tasks submitted anew")


def test_faults_are_told_in_the_words_of_rest(browser, pool):
    form = form_of(browser.get(address(pool)))
    page = browser.post(address(pool), form | {"drain": "[{row: 1}]", "drain_nodes": "n9\nn1"})
    assert shown_in_page(page, "drain[0]: The pool has no key 'row'. Accepted: zone, rack.")
    assert shown_in_page(page, "drain_nodes[0]: No node 'n9' of the pool is known.")
    assert shown_in_page(browser.post(address(pool), form | {"add_nodes": "[{cuont: 1}]"}), "cuont")
    assert shown_in_page(browser.post(address(pool), form | {"drain": "{"}), "neither YAML nor JSON")


def test_only_staff_reads_it(pool):
    stranger = Client()
    stranger.force_login(User.objects.create_user("bob"))
    assert stranger.get(address(pool)).status_code == 302
    staff = Client()
    staff.force_login(User.objects.create_user("ann", is_staff=True))
    assert staff.get("/admin/pools/pool/x\0/what-if/").status_code == 404
