"""The list of pools and the page of one: what stands there, who sees it, and what it costs."""

import pytest
from django.utils import timezone

from pages.pools import views
from tests.api.pages.reading import rows, text
from tests.factories import LEVELS, ClusterFactory, NodeFactory, PoolFactory, TaskFactory, TaskGroupFactory
from web.models import Role

pytestmark = pytest.mark.django_db

ZONE, RACK, _ = LEVELS


@pytest.fixture
def pool():
    """
    ::

        zone z1: rack r1 [2 nodes], rack r2 [1 node]      no labels [1 node]       8 GPUs each
    """
    pool = PoolFactory(name="h100", levels=LEVELS[:2], nvlink=True)
    for name, labels in {
        "a": {ZONE.label: "z1", RACK.label: "r1"},
        "b": {ZONE.label: "z1", RACK.label: "r1"},
        "c": {ZONE.label: "z1", RACK.label: "r2"},
        "bare": {},
    }.items():
        NodeFactory(cluster=pool.backend.cluster, name=name, labels=labels)
    return pool


def test_the_list_tells_of_each_pool_its_keys_its_room_and_its_live_work(browser, pool):
    group = TaskGroupFactory(pool=pool, status="RUNNING", pods=0)
    TaskFactory(group=group, node_name="a", placement__gpu=8)
    line = next(row for row in rows(browser.get("/ui/")) if row[0].startswith("h100"))
    assert line[1:7] == ["✓ online", "zone → rack", "yes", "24 of 32", "4 of 4", "1"]


def test_a_pool_shows_its_keys_with_their_domains_and_what_stands_outside(browser, pool):
    found = rows(browser.get("/ui/pools/h100"))
    assert ["zone", ZONE.label, "1", "z1 (3)", "▲ 1"] in found
    assert ["rack", RACK.label, "2", "z1/r1 (2) z1/r2 (1)", "▲ 1"] in found


def test_a_pool_shows_what_fits_now(browser, pool):
    NodeFactory(cluster=pool.backend.cluster, name="d", labels={ZONE.label: "z1"}, unschedulable=True)
    found = rows(browser.get("/ui/pools/h100"))
    assert ["zone", "3 nodes in z1", "3", "1", "0", "▲ 1"] in found
    assert ["rack", "2 nodes in z1/r1", "3", "1", "larger than any domain -", "▲ 1"] in found


def test_a_pool_shows_what_waits_and_why(browser, pool):
    TaskGroupFactory(
        pool=pool,
        name="train",
        status="SCHEDULING",
        waiting_reason="No rack has room.",
        waiting_since=timezone.now(),
    )
    line = next(row for row in rows(browser.get("/ui/pools/h100")) if "No rack has room." in row)
    assert line[1:3] == ["train", "ann"]


def test_a_pool_shows_what_placed_work_got(browser, pool):
    group = TaskGroupFactory(pool=pool)
    row = {"key": "rack", "required": False, "outcome": "degraded"}
    group.placement_result = {"outcome": "degraded", "at": "", "places": "", "sets": [row]}
    group.save()
    assert ["rack", "0 of 1", "never required"] in rows(browser.get("/ui/pools/h100"))


def test_a_word_of_a_pool_is_text_whatever_it_contains(browser):
    PoolFactory(name="h100", description="<script>alert(1)</script>", levels=LEVELS)
    page = browser.get("/ui/pools/h100").content.decode()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_a_pool_that_is_hidden_is_not_there(browser_of, pool):
    member = browser_of("bob", "osmo-other")
    assert member.get("/ui/pools/h100").status_code == 404
    assert "h100" not in text(member.get("/ui/"))


def test_a_user_who_may_not_list_workflows_sees_no_work(browser_of, pool):
    TaskGroupFactory(pool=pool, name="secret", status="SCHEDULING", waiting_reason="No room.")
    Role.objects.create(name="looker", policies=[{"actions": ["pool:List"], "resources": ["pool/h100"]}])
    looker = browser_of("bob", "looker")
    assert "No room." not in text(looker.get("/ui/pools/h100"))
    line = next(row for row in rows(looker.get("/ui/")) if row[0].startswith("h100"))
    assert line[6] == ""


def test_a_pool_whose_cluster_was_never_seen_says_so(browser):
    PoolFactory(name="new", backend__cluster=None)
    assert "have not been observed yet" in text(browser.get("/ui/pools/new"))


def test_the_pages_cost_the_same_for_any_number_of_pools_and_nodes(browser, django_assert_max_num_queries):
    cluster = ClusterFactory()
    for number in range(5):
        PoolFactory(name=f"p{number}", backend__cluster=cluster, levels=LEVELS)
    for number in range(30):
        NodeFactory(cluster=cluster, name=f"n{number}", labels={ZONE.label: f"z{number}"})
    browser.get("/ui/")
    with django_assert_max_num_queries(12):
        browser.get("/ui/")
    with django_assert_max_num_queries(20):
        browser.get("/ui/pools/p1")


@pytest.mark.parametrize(("most", "live"), [(4, True), (3, False)])
@pytest.mark.parametrize("address", ["/ui/", "/ui/pools/h100"])
def test_pages_over_many_nodes_are_read_again_only_when_asked(
    browser, pool, monkeypatch, *, address, most, live
):
    monkeypatch.setattr(views, "LIVE_UP_TO", most)
    page = browser.get(address)
    assert ("data-live" in page.content.decode()) is live
    assert ("Refresh" in text(page)) is not live
