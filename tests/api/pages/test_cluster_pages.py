"""The pages of a cluster: what others submitted and waits, why, and who may read it."""

from datetime import timedelta

import pytest
from django.utils import timezone

from pages.drawn import drawn_explanations
from pools.models import Backend
from tests.api.pages.reading import text
from tests.builders.completeness import note_lists
from tests.builders.gangs_of_others import (
    REFUSED,
    follow,
    observe_gang,
    observe_topology,
    pod_group,
    waiting_pod,
)
from tests.builders.nodes import racked_pool
from tests.factories import RACK, ZONE, BackendFactory, PoolFactory
from web.models import Role
from workflows.models import ObservedGang

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_drawn():
    drawn_explanations.clear()


@pytest.fixture
def pool():
    """Racks r0 of three and r1 of two nodes of eight GPUs, on a cluster that follows others."""
    made = racked_pool(3, 2, name="train", backend=BackendFactory(name="east"))
    follow(made.backend)
    observe_topology(made.backend, [ZONE, RACK])
    return made


@pytest.fixture
def explainer(browser_of):
    """Somebody who may read names on this backend, and list its pools."""
    Role.objects.create(
        name="explainer",
        policies=[{"actions": ["cluster:Explain", "pool:List"], "resources": ["backend/east", "pool/*"]}],
    )
    return browser_of("eve", "explainer")


def gang(pool, name, tasks, *, age=1, **more):
    since = timezone.now() - timedelta(hours=age)
    manifest = pod_group(name=name, members=tasks, required=RACK.label)
    return observe_gang(pool.backend, manifest, [waiting_pod(**more)] * tasks, since=since)


def page_of(browser, address="/ui/clusters/east", status=200):
    answer = browser.get(address)
    assert answer.status_code == status, answer.content.decode()
    return text(answer)


def test_all_that_wait_are_listed_with_their_verdicts_the_oldest_first(explainer, pool):
    gang(pool, "small", 2), gang(pool, "large", 4, age=3)
    page = page_of(explainer)
    assert "2 groups of others wait for scheduler kai, the oldest first." in page
    assert page.index("research/large ✕ Never fits") < page.index("research/small ✓ Fits now")
    assert "PyTorchJob train: 4 tasks, 32 GPUs, queue research, since 2" in page


def test_the_map_beside_compares_the_domains_with_the_first_that_lacks_a_place(explainer, pool):
    gang(pool, "small", 2, age=3), gang(pool, "large", 4)
    page = page_of(explainer)
    assert "how many tasks of research/large" in page
    assert "room for 3 of 4" in page


def test_another_is_chosen_for_the_map_by_its_link(explainer, pool):
    gang(pool, "huge", 5, age=3), gang(pool, "large", 4)
    assert "how many tasks of research/huge" in page_of(explainer)
    assert "?group=research/large" in explainer.get("/ui/clusters/east").content.decode()
    assert "how many tasks of research/large" in page_of(explainer, "/ui/clusters/east?group=research/large")


def test_a_box_of_the_map_opens_and_the_choice_stays(explainer, pool):
    gang(pool, "large", 4)
    page = explainer.get("/ui/clusters/east?group=research/large&open=a/r0").content.decode()
    assert "/ui/clusters/east?group=research%2Flarge" in page
    assert "n00" in page


def test_one_of_them_is_explained_with_its_nearest_domains(explainer, pool):
    gang(pool, "large", 4, report="no node can hold it")
    page = page_of(explainer, "/ui/clusters/east/research/large")
    assert "The scheduler's words no node can hold it" in page
    assert "4 tasks" in page
    assert "must share one" in page
    assert "room for 3 of 4" in page


def test_what_is_not_examined_is_named(explainer, pool):
    gang(pool, "large", 4, unread=("pod affinity",))
    page = page_of(explainer, "/ui/clusters/east/research/large")
    assert "pod affinity" in page.partition("Not examined")[2]
    assert "Never fits" not in page


def test_those_without_the_action_read_how_many_wait(browser_of, pool):
    gang(pool, "secret", 4)
    Role.objects.create(name="lister", policies=[{"actions": ["pool:List"], "resources": ["pool/*"]}])
    lister = browser_of("lea", "lister")
    page = page_of(lister)
    assert "1 group of others waits for scheduler kai; their names need action cluster:Explain" in page
    assert "secret" not in page
    assert "n00" not in page
    assert "cluster:Explain" in page_of(lister, "/ui/clusters/east/research/secret", status=403)


def test_a_gang_that_ended_is_not_found(explainer, pool):
    gang(pool, "large", 4)
    assert "research/large" in page_of(explainer, "/ui/clusters/east/research/larg", status=404)


def test_why_not_all_are_known_is_said(explainer, pool):
    note_lists(REFUSED)
    assert "They are not followed: podgroups is forbidden" in page_of(explainer)


def test_the_pages_of_pools_lead_there_for_those_who_may_read_names_alone(explainer, browser, pool):
    for address in ("/ui/", "/ui/pools/train"):
        assert "/ui/clusters/east" in explainer.get(address).content.decode(), address
        assert "/ui/clusters/east" not in browser.get(address).content.decode(), address


def test_no_page_leads_to_a_cluster_that_follows_nobody(explainer, pool):
    Backend.objects.update(follow_others=False)
    for address in ("/ui/", "/ui/pools/train"):
        assert "/ui/clusters/" not in explainer.get(address).content.decode(), address


def test_hidden_clusters_and_absent_ones_give_the_same_answer(browser_of, pool):
    Role.objects.create(name="lister", policies=[{"actions": ["pool:List"], "resources": ["pool/other"]}])
    PoolFactory(name="other")
    lister = browser_of("lea", "lister")
    hidden, absent = (
        page_of(lister, f"/ui/clusters/{name}", status=404).partition(" Request ")[0].replace(name, "NAME")
        for name in ("east", "nosuch")
    )
    assert hidden == absent


def test_a_page_costs_the_same_queries_however_many_wait(explainer, pool, django_assert_max_num_queries):
    for number in range(20):
        gang(pool, f"gang-{number}", 4)
    with django_assert_max_num_queries(35):
        explainer.get("/ui/clusters/east")
    with django_assert_max_num_queries(20):
        explainer.get("/ui/clusters/east")


def test_hostile_texts_of_a_cluster_are_plain_text(explainer, pool):
    manifest = pod_group(name="x", members=4, required=RACK.label, queue="<script>alert(1)</script>")
    observe_gang(pool.backend, manifest, [waiting_pod(report="<img src=x onerror=alert(2)>")] * 4)
    for address in ("/ui/clusters/east", "/ui/clusters/east/research/x"):
        page = explainer.get(address).content.decode()
        assert "<script>alert" not in page
        assert "<img src=x" not in page


def test_a_row_that_cannot_be_read_is_listed_without_a_verdict(explainer, pool):
    row = gang(pool, "broken", 2)
    ObservedGang.objects.filter(pk=row.pk).update(content={"pods": 7})
    assert "? No verdict" in page_of(explainer)
    assert "? No verdict" in page_of(explainer, "/ui/clusters/east/research/broken")
