"""What-if beside the map: what may be chosen, which groups change, and who may ask."""

import pytest

from tests.api.pages.reading import text
from tests.builders.gangs import waiting_gang
from tests.builders.nodes import racked_pool
from web.models import Role

pytestmark = pytest.mark.django_db


@pytest.fixture
def pool():
    """Zone a with a rack r0 of three nodes and r1 of two, each of eight GPUs."""
    return racked_pool(3, 2, name="train")


@pytest.fixture
def admin(browser_of):
    return browser_of("root", is_staff=True, is_superuser=True)


def waiting(pool, tasks):
    """A gang that waits for whole nodes in one rack."""
    return waiting_gang(pool, sizes={"r": tasks})


def row_of(gang, tasks):
    return f"{gang.workflow.name} {gang.name} {tasks}"


def page_of(browser, query="", status=200):
    answer = browser.get(f"/ui/pools/train/what-if{query}")
    assert answer.status_code == status, answer.content.decode()
    return text(answer)


def test_a_domain_of_the_map_is_chosen_and_the_groups_that_change_are_listed(admin, pool):
    large, small = waiting(pool, 3), waiting(pool, 1)
    page = page_of(admin, "?open=a/r0&drain=true")
    assert "3 nodes would be gone" in page
    assert "Of 2 groups that wait, 1 would change and 1 would stay as they are." in page
    assert f"{row_of(large, 3)} ✕ Would become impossible" in page
    assert row_of(small, 1) not in page


def test_nodes_are_chosen_by_their_boxes(admin, pool):
    large = waiting(pool, 3)
    page = page_of(admin, "?open=a/r0&node=n00")
    assert "1 node would be gone" in page
    assert f"{row_of(large, 3)} ✕ Would become impossible" in page


def test_nodes_like_one_of_the_open_place_are_added(admin, pool):
    large = waiting(pool, 4)
    page = page_of(admin, "?open=a/r0&add=1")
    assert f"{row_of(large, 4)} ✓ Would fit now" in page


def test_without_a_choice_nothing_is_judged(admin, pool):
    waiting(pool, 3)
    page = page_of(admin, "?open=a/r0")
    assert "All of rack r0 is gone" in page
    assert "What would change" not in page


def test_the_pool_as_a_whole_is_no_domain_to_choose(admin, pool):
    assert "Open a box of the picture to choose its domain." in page_of(admin)


def test_a_node_that_does_not_exist_is_named_beside_the_form(admin, pool):
    page = page_of(admin, "?node=nosuch", status=400)
    assert page.count("nosuch") == 1
    assert "Compare" in page


def test_the_map_leads_there_for_those_who_may_ask_alone(admin, browser, pool):
    Role.objects.create(name="osmo-user", policies=[{"actions": ["pool:List"], "resources": ["pool/train"]}])
    assert "/ui/pools/train/what-if" in admin.get("/ui/pools/train/map").content.decode()
    assert "/what-if" not in browser.get("/ui/pools/train/map").content.decode()
    assert browser.get("/ui/pools/train/what-if").status_code == 403
